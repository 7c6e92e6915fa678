"""An env that does not end by itself says why it ended; what no engine can keep is refused in words."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from agent_env.errors import SandboxGone, SandboxNotReady, SandboxUnsupported
from agent_env.plugin.sandbox import Resources, SandboxSpec
from agent_env.sandboxes.docker.provider import DockerProvider

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_env.plugin.sandbox import BuildContext, Sandbox

pytestmark = pytest.mark.docker

HOG = """
import os, socket, time
if os.environ.get("WHEN") != "start":
    server = socket.socket(socket.AF_UNIX)
    server.bind(os.environ["AGENTENV_UDS"])
    server.listen()
    one, _ = server.accept()
    one.recv(9999)
    one.sendall(b"HTTP/1.1 404 Not Found\\r\\nContent-Length: 0\\r\\nConnection: close\\r\\n\\r\\n")
    one.close()
    print("it serves", flush=True)
    time.sleep(0.5)
held = b"x" * (200 << 20)
time.sleep(60)
"""
LIMIT = Resources(memory_mb=32)


async def ended(box: Sandbox) -> None:
    async with asyncio.timeout(60):
        while await box.status() not in {"exited", "gone"}:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("when", ["start", "later"])
def test_out_of_memory(when: str, env_folder: Callable[..., BuildContext]) -> None:
    async def play() -> None:
        async with DockerProvider() as provider:
            spec = SandboxSpec(
                image=env_folder(), command=("python", "-c", HOG), env={"WHEN": when}, resources=LIMIT, label="hog"
            )
            if when == "start":
                with pytest.raises(SandboxNotReady, match=r"137 \(killed: it used more than its 32 MiB of memory\)"):
                    await provider.create(spec)
                return
            box = await provider.create(spec)
            await ended(box)
            assert await box.exit_code() == 137
            assert await box.logs() == "it serves\n[killed: it used more than its 32 MiB of memory]"

    asyncio.run(play())


def test_a_life_that_was_over(env_folder: Callable[..., BuildContext]) -> None:
    async def play() -> None:
        async with DockerProvider() as provider:
            box = await provider.create(SandboxSpec(image=env_folder(), ttl_s=3.0))
            assert "time to live" not in await box.logs()
            await ended(box)
            assert await box.logs() == "[ended: its time to live was over]"
            with pytest.raises(SandboxGone, match="its time to live was over"):
                await box.exec(["python", "-c", "pass"])

    asyncio.run(play())


def test_less_cpu_than_an_engine_can_give(env_folder: Callable[..., BuildContext]) -> None:
    async def play() -> None:
        async with DockerProvider() as provider:
            with pytest.raises(SandboxUnsupported, match=r"^small: cpu 0\.001 is below the 0\.01 of a CPU"):
                await provider.create(SandboxSpec(image=env_folder(), resources=Resources(cpu=0.001), label="small"))

    asyncio.run(play())


BESIDE = """
import asyncio
from pathlib import Path
from agent_env.plugin.sandbox import BuildContext, SandboxSpec
from agent_env.sandboxes.docker.provider import DockerProvider

async def main():
    async with DockerProvider() as provider:
        box = await provider.create(SandboxSpec(image=BuildContext(Path({folder!r}))))
        print(box.id, flush=True)
        await asyncio.to_thread(input)

asyncio.run(main())
"""


def test_these_tests_count_only_their_own(
    env_folder: Callable[..., BuildContext], is_of_another: Callable[[str], bool]
) -> None:
    """What a living server beside them has is not theirs to end; what a child of theirs has is."""
    command = [sys.executable, "-c", BESIDE.format(folder=str(env_folder().path))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        container = child.stdout.readline().strip()
        try:
            assert is_of_another(container) is False, f"a container of process {os.getpid()}'s child"
            seen = subprocess.run(
                [sys.executable, "-c", "import conftest, sys; print(conftest.is_of_another(sys.argv[1]))", container],
                cwd=os.path.dirname(__file__),  # noqa: PTH120
                capture_output=True,
                text=True,
                check=True,
            )
            assert seen.stdout.strip() == "True"
        finally:
            child.communicate("\n", timeout=60)
    assert is_of_another(container), "a container that is gone is nobody's leftover"
