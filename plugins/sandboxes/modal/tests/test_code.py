"""Code of a bundle: one sandbox for all of an image's, replaced when it ended, and never an episode's own."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_env.env.relay import Relay
from agent_env.episode import code_runner
from agent_env.plugin.sandbox import CodeRequest, SandboxSpec
from agent_env.sandboxes.modal.provider import ModalProvider

if TYPE_CHECKING:
    from agent_env.plugin.sandbox import BuildContext
    from agent_env.sandboxes.modal.standin.server import StandIn

CODE = """
import urllib.request

def double(number):
    return number * 2

def look(url):
    with urllib.request.urlopen(url + "/some/path") as reply:
        return reply.read().decode()
"""


def request(folder: Path, function: str, *args: Any) -> CodeRequest:
    (folder / "code.py").write_text(CODE)
    return CodeRequest(folder, "code.py", function, args, runner=Path(code_runner.__file__), timeout=30.0)


def test_one_sandbox_for_all_and_another_when_it_ended(modal: StandIn, env: BuildContext, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()

    async def work() -> None:
        async with ModalProvider() as provider:
            wanted = [request(tmp_path / "code", "double", number) for number in range(4)]
            got = await asyncio.gather(*(provider.run_code(env, one) for one in wanted))
            assert got == [0, 2, 4, 6]
            (box,) = modal.state.boxes.running()
            async with ModalProvider() as another:
                assert await another.destroy(box.id)
            assert await provider.run_code(env, wanted[3]) == 6
            (other,) = modal.state.boxes.running()
            assert other.id != box.id

    asyncio.run(work())


def test_it_reaches_the_env_that_it_grades(modal: StandIn, env: BuildContext, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()

    async def work() -> str:
        async with (
            ModalProvider() as provider,
            await provider.create(SandboxSpec(env)) as box,
            Relay(await box.endpoint()) as relay,
        ):
            seen: str = await provider.run_code(env, request(tmp_path / "code", "look", relay.url))
            return seen

    assert '"/some/path"' in asyncio.run(work())
