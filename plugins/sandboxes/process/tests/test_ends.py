"""How sandboxes end: closed, cancelled, killed, expired, reaped; nothing may be left in any case.

The fixture ``processes`` fails a test that leaves a process, ``state_dir`` one that leaves a file.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.errors import SandboxError, SandboxGone, SandboxNotFound, SandboxNotReady, SandboxUnavailable
from agent_env.plugin.sandbox import HostImage, SandboxSpec
from agent_env.sandboxes.process.provider import ProcessProvider

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    from agent_env.plugin.sandbox import BuildContext, Isolation

    EnvFolder = Callable[..., BuildContext]
    Processes = Any

STRAYS = """
import subprocess
subprocess.Popen(["sh", "-c", "setsid sh -c 'setsid sleep 96 & exec sleep 97' & exec sleep 98"])
"""


def test_close_takes_everything_and_is_idempotent(
    env_folder: EnvFolder, state_dir: Path, isolation: Isolation, processes: Processes
) -> None:
    image = env_folder(STRAYS)

    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir, isolation=isolation) as provider:
            idle = set(processes.all())
            sandbox = await provider.create(SandboxSpec(image=image))
            await sandbox.exec(["sh", "-c", "setsid sleep 99 >/dev/null 2>&1 &"])
            assert len(set(processes.all()) - idle) >= 4
            await asyncio.gather(sandbox.close(), sandbox.close())
            await sandbox.close()
            assert set(processes.all()) - idle == set()
            assert not sandbox.folder.exists()
            with pytest.raises(SandboxGone):
                await sandbox.read("x")

    asyncio.run(play())


def test_a_large_folder_goes_too(state_dir: Path, isolation: Isolation, processes: Processes) -> None:
    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir, isolation=isolation) as provider:
            box = await provider.create(SandboxSpec(image=HostImage(), serves=False))
            script = "mkdir -p a/b; for i in $(seq 900); do echo > a/b/f$i; done; chmod 0 a/b a"
            assert (await box.exec(["sh", "-c", script])).exit_code == 0
            await box.close()
            assert not box.folder.exists()

    asyncio.run(play())


def test_an_env_that_is_killed_is_exited_with_its_code(
    env_folder: EnvFolder, state_dir: Path, isolation: Isolation, processes: Processes
) -> None:
    image = env_folder('print("pid", os.getpid(), flush=True)' + STRAYS)

    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir, isolation=isolation) as provider:
            sandbox = await provider.create(SandboxSpec(image=image))
            assert await sandbox.exit_code() is None
            pid = next(pid for pid in processes.all() if is_server(pid))
            os.kill(pid, signal.SIGKILL)
            assert await sandbox.exited() == 137
            assert await sandbox.status() == "exited"
            assert await sandbox.exit_code() == 137
            assert "pid" in await sandbox.logs()
            await sandbox.close()
            assert await sandbox.status() == "gone"

    asyncio.run(play())


def is_server(pid: int) -> bool:
    words = cmdline(pid).split(b"\0")
    return words[1:2] == [b"server.py"]


@pytest.mark.parametrize("kind", ["plain", "prefork"])
def test_a_create_cancelled_at_any_step_leaves_nothing(
    env_folder: EnvFolder,
    prefork_folder: Callable[[], BuildContext],
    state_dir: Path,
    isolation: Isolation,
    processes: Processes,
    kind: str,
) -> None:
    image = env_folder() if kind == "plain" else prefork_folder()

    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir, isolation=isolation) as provider:
            await provider.prepare(image)
            idle = set(processes.all())
            steps = 0
            for step in range(80):
                task = asyncio.create_task(provider.create(SandboxSpec(image=image)))
                for _ in range(min(step, 30)):
                    if not task.done():
                        await asyncio.sleep(0)
                if step > 30:  # the rest of the time is spent waiting for processes
                    await asyncio.wait([task], timeout=0.002 * (step - 30))
                task.cancel()
                try:
                    sandbox = await task
                except asyncio.CancelledError:
                    steps += 1
                else:
                    await sandbox.close()
                    break
            assert steps > 5
            await _settle(processes, idle)
            deadline = time.monotonic() + 20
            while (left := [record async for record in provider.list()]) and time.monotonic() < deadline:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
            assert left == []

    asyncio.run(play())


async def _settle(processes: Processes, idle: set[int]) -> None:
    deadline = time.monotonic() + 20
    while (left := set(await asyncio.to_thread(processes.all)) - idle) and time.monotonic() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    assert left == set()


def test_a_cancelled_close_still_ends(
    env_folder: EnvFolder, state_dir: Path, isolation: Isolation, processes: Processes
) -> None:
    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir, isolation=isolation) as provider:
            idle = set(processes.all())
            sandbox = await provider.create(SandboxSpec(image=env_folder()))
            task = asyncio.create_task(sandbox.close())
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await _settle(processes, idle)

    asyncio.run(play())


def test_closing_the_provider_ends_creates_under_way(
    env_folder: EnvFolder, state_dir: Path, isolation: Isolation, processes: Processes
) -> None:
    image = env_folder("import time; time.sleep(60)")

    async def play() -> None:
        provider = ProcessProvider(state_dir=state_dir, isolation=isolation)
        await provider.start()
        creates = [asyncio.create_task(provider.create(SandboxSpec(image=image))) for _ in range(3)]
        await asyncio.sleep(0.1)
        await provider.close()
        await provider.close()
        for create in creates:
            assert create.done()
            assert isinstance(create.exception(), SandboxError)
        with pytest.raises(SandboxUnavailable, match="closed"):
            await provider.create(SandboxSpec(image=image))

    asyncio.run(play())


def test_it_ends_by_itself_unless_extended(
    env_folder: EnvFolder, state_dir: Path, isolation: Isolation, processes: Processes
) -> None:
    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir, isolation=isolation) as provider:
            image = env_folder()
            other = ProcessProvider(state_dir=state_dir, isolation=isolation)
            longer = await provider.create(SandboxSpec(image=image, ttl_s=4.0))
            await longer.extend(100)
            attached = await provider.create(SandboxSpec(image=image, ttl_s=4.0))
            await (await other.attach(attached.id)).extend(100)
            await other.close()
            short = await provider.create(SandboxSpec(image=image, ttl_s=4.0))
            await short.exited()
            while await short.status() != "gone":  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            assert (await short.logs()).endswith("[ended: its time to live was over]\n")
            await asyncio.sleep(0.3)
            assert "time to live" not in await longer.logs()
            assert await longer.status() == "running"
            assert await attached.status() == "running"

    asyncio.run(play())


def test_another_process_can_attach_list_and_destroy(
    env_folder: EnvFolder,
    prefork_folder: Callable[[], BuildContext],
    state_dir: Path,
    isolation: Isolation,
    processes: Processes,
) -> None:
    async def play() -> None:
        async with (
            ProcessProvider(state_dir=state_dir, isolation=isolation) as owner,
            ProcessProvider(state_dir=state_dir, isolation=isolation) as other,
        ):
            for image in (env_folder(), prefork_folder()):
                sandbox = await owner.create(SandboxSpec(image=image, labels={"episode": "e1"}))
                records = [record async for record in other.list({"episode": "e1"})]
                assert [(record.id, record.status, record.owner_alive) for record in records] == [
                    (sandbox.id, "running", True)
                ]
                assert [record async for record in other.list({"episode": "e2"})] == []
                seen = await other.attach(sandbox.id)
                assert await seen.endpoint() == await sandbox.endpoint()
                assert (await seen.exec(["echo", "hi"])).stdout == "hi\n"
                assert await other.reap() == []
                assert await other.destroy(sandbox.id)
                assert not await other.destroy(sandbox.id)
                assert await sandbox.exited() is not None
                await sandbox.close()
                with pytest.raises(SandboxNotFound):
                    await other.attach(sandbox.id)
            with pytest.raises(SandboxNotFound):
                await other.attach("../../etc")

    asyncio.run(play())


def test_a_lost_keeper_loses_its_sandboxes_and_is_replaced(
    env_folder: EnvFolder, state_dir: Path, isolation: Isolation, processes: Processes
) -> None:
    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir, isolation=isolation) as provider:
            image = env_folder()
            sandbox = await provider.create(SandboxSpec(image=image))
            keeper = next(pid for pid in processes.all() if b"spawner" in cmdline(pid))
            os.kill(keeper, signal.SIGKILL)
            assert await sandbox.exited() is None
            assert await sandbox.status() == "gone"
            await asyncio.sleep(0.05)
            again = await provider.create(SandboxSpec(image=image))
            assert await again.status() == "running"
            assert await provider.reap() == []
            await sandbox.close()

    asyncio.run(play())


def cmdline(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


SERVER_PROCESS = """
import asyncio, sys
from pathlib import Path
from agent_env.plugin.sandbox import BuildContext, HostImage, SandboxSpec
from agent_env.sandboxes.process.provider import ProcessProvider

async def main():
    state, isolation, plain, prefork = sys.argv[1:]
    provider = ProcessProvider(state_dir=state, isolation=isolation)
    await provider.start()
    for folder in (plain, prefork):
        await provider.create(SandboxSpec(image=BuildContext(Path(folder))))
    box = await provider.create(SandboxSpec(image=HostImage(), serves=False))
    await box.exec(["sh", "-c", "setsid sleep 99 >/dev/null 2>&1 &"])
    print("up", flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.mark.parametrize("kill_keepers", [False, True])
def test_nothing_outlives_a_killed_server(
    env_folder: EnvFolder,
    prefork_folder: Callable[[], BuildContext],
    state_dir: Path,
    isolation: Isolation,
    processes: Processes,
    run_python: Callable[..., subprocess.Popen[str]],
    kill_keepers: bool,
) -> None:
    plain, prefork = env_folder(STRAYS), prefork_folder()
    server = run_python(SERVER_PROCESS, str(state_dir), isolation, str(plain.path), str(prefork.path))
    assert server.stdout is not None
    assert server.stdout.readline() == "up\n"
    keepers = [pid for pid in processes.all() if b"keeper.main" in cmdline(pid)]
    assert keepers
    server.kill()
    if kill_keepers:
        for pid in keepers:
            with contextlib.suppress(ProcessLookupError):  # it may have seen already that its server is gone
                os.kill(pid, signal.SIGKILL)
        server.wait()

        async def next_server() -> None:
            async with ProcessProvider(state_dir=state_dir, isolation=isolation):
                pass

        asyncio.run(next_server())
    processes.wait_none()
    deadline = time.monotonic() + 10
    while any(state_dir.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert list(state_dir.iterdir()) == []


def test_a_reaper_leaves_live_owners_alone(env_folder: EnvFolder, state_dir: Path, processes: Processes) -> None:
    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir) as owner:
            sandbox = await owner.create(SandboxSpec(image=env_folder()))
            async with ProcessProvider(state_dir=state_dir) as other:
                assert await other.reap(older_than_s=0) == []
            assert await sandbox.status() == "running"

    asyncio.run(play())


def test_a_start_under_another_kind_of_error_still_cleans_up(
    env_folder: EnvFolder, state_dir: Path, processes: Processes
) -> None:
    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir) as provider:
            idle = set(processes.all())
            with pytest.raises(SandboxNotReady):
                await provider.create(SandboxSpec(image=env_folder(STRAYS + "\nraise SystemExit(1)")))
            await _settle(processes, idle)

    asyncio.run(play())


def test_grace_lets_a_server_say_goodbye(
    env_folder: EnvFolder, state_dir: Path, isolation: Isolation, processes: Processes, tmp_path: Path
) -> None:
    body = """
import signal
def bye(number, frame):
    import urllib.request, time
    print("bye", flush=True)
    time.sleep(0.2)
    os._exit(5)
signal.signal(signal.SIGTERM, bye)
"""

    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir, isolation=isolation, grace_s=20) as provider:
            sandbox = await provider.create(SandboxSpec(image=env_folder(body)))
            await sandbox.close()
            assert await sandbox.exit_code() == 5

    asyncio.run(play())


def test_one_that_ignores_sigterm_is_killed(
    env_folder: EnvFolder, state_dir: Path, isolation: Isolation, processes: Processes
) -> None:
    body = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"

    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir, isolation=isolation, grace_s=0.2) as provider:
            sandbox = await provider.create(SandboxSpec(image=env_folder(body)))
            await sandbox.close()
            assert await sandbox.exit_code() == 137

    asyncio.run(play())
