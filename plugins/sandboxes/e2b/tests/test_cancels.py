"""A cancel is a cancel at any moment of a command, and nothing is said of it in the log of asyncio."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.episode import code_runner
from agent_env.plugin.sandbox import CodeRequest, SandboxSpec
from agent_env.sandboxes.e2b.provider import E2BProvider
from agent_env.sandboxes.e2b.testing.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from agent_env.plugin.sandbox import BuildContext
    from agent_env.sandboxes.e2b.sandbox import E2BSandbox
    from agent_env.sandboxes.e2b.testing.server import StandIn


async def quiet(work: Coroutine[Any, Any, None]) -> None:
    """Run it; whatever asyncio would log as forgotten is an error."""
    said: list[str] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: said.append(f"{context['message']}: {context.get('exception')!r}"))
    await work
    for _ in range(3):
        gc.collect()
        await asyncio.sleep(0)
    assert said == []


async def cancelled(work: Coroutine[Any, Any, Any], after: float) -> None:
    """Start it and cancel it some time later: then it is cancelled, unless it was done before."""
    task = asyncio.ensure_future(work)
    await asyncio.sleep(after)
    done = task.done()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled() or done, task.exception()


CALLS: dict[str, Callable[[E2BSandbox, Path], Coroutine[Any, Any, Any]]] = {
    "exec": lambda box, _: box.exec(["sleep", "0.3"]),
    "shell": lambda box, _: box.write("/data/x", b"x", mode=0o700),
    "download": lambda box, folder: box.download("/app", folder / "there"),
}


@pytest.mark.parametrize("call", list(CALLS))
@pytest.mark.parametrize("slow", [False, True])
def test_a_command_that_is_cancelled_at_any_moment(
    standin: StandIn, env: BuildContext, options: Callable[..., dict[str, str]], tmp_path: Path, call: str, slow: bool
) -> None:
    async def work() -> None:
        async with (
            E2BProvider(**options()) as provider,
            await provider.create(SandboxSpec(env, serves=False, label="idle")) as box,
        ):
            for number in range(6):
                if slow:  # the service has not answered the start of the command yet
                    standin.faults.add(Fault("envd", "slow", seconds=0.4))
                await cancelled(CALLS[call](box, tmp_path), 0.03 + number * 0.06)
                standin.faults.waiting.clear()
            assert (await box.exec(["echo", "lives"])).stdout == "lives\n"

    asyncio.run(quiet(work()))


def test_a_code_box_that_is_cancelled_or_closed(
    standin: StandIn, env: BuildContext, options: Callable[..., dict[str, str]], tmp_path: Path
) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "verify.py").write_text("import time\n\ndef slow():\n    time.sleep(5)\n")
    request = CodeRequest(tmp_path / "code", "verify.py", "slow", (), Path(str(code_runner.__file__)))

    async def work() -> None:
        async with E2BProvider(**options()) as provider:
            await provider.prepare(env)
            for after in (0.05, 0.4, 1.0):
                await cancelled(provider.run_code(env, request), after)
            running = asyncio.ensure_future(provider.run_code(env, request))
            await asyncio.sleep(0.3)
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(quiet(work()))
