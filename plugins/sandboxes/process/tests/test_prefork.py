"""Envs forked from a warm interpreter."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from agent_env.errors import SandboxNotReady, SandboxUnsupported
from agent_env.plugin.sandbox import SandboxSpec
from agent_env.sandboxes.process.provider import ProcessProvider

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_env.plugin.sandbox import BuildContext, Isolation
    from agent_env.sandboxes.process.sandbox import ProcessSandbox

    Processes = Any


async def facts(sandbox: ProcessSandbox) -> list[str]:
    return (await sandbox.read("facts")).decode().split()


async def card(sandbox: ProcessSandbox) -> int:
    endpoint = await sandbox.endpoint()
    async with httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(uds=endpoint.uds), trust_env=False) as client:
        return (await client.get(f"{endpoint.url}/.well-known/agent-env.json")).status_code


def test_children_share_an_interpreter_and_nothing_else(
    prefork_folder: Callable[[], BuildContext], state_dir: Path, isolation: Isolation, processes: Processes
) -> None:
    image = prefork_folder()

    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir, isolation=isolation) as provider:
            numbers: set[str] = set()
            for _ in range(5):
                specs = [SandboxSpec(image=image, secrets={"SECRET": f"s{i}"}) for i in range(10)]
                boxes = await asyncio.gather(*(provider.create(spec) for spec in specs))
                for i, box in enumerate(boxes):
                    assert box.isolation == ("shared" if isolation == "namespace" else "none")
                    number, secret, cwd = await facts(box)
                    numbers.add(number)
                    assert secret == f"s{i}"
                    assert cwd == str(box.folder / "root" / "app")
                assert await asyncio.gather(*map(card, boxes)) == [200] * 10
                await asyncio.gather(*(box.close() for box in boxes))
            assert len(numbers) == 50
            kept = b"".join(path.read_bytes() for path in state_dir.rglob("*.json"))  # noqa: ASYNC240
            assert b'"s0"' not in kept

    asyncio.run(play())


def test_one_that_crashes_does_not_hurt_the_others(
    prefork_folder: Callable[[], BuildContext], state_dir: Path, isolation: Isolation, processes: Processes
) -> None:
    image = prefork_folder()
    call: dict[str, Any] = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "crash", "arguments": {}},
    }

    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir, isolation=isolation) as provider:
            one, other = [await provider.create(SandboxSpec(image=image)) for _ in range(2)]
            endpoint = await one.endpoint()
            transport = httpx.AsyncHTTPTransport(uds=endpoint.uds)
            headers = {"Accept": "application/json, text/event-stream"}
            async with httpx.AsyncClient(transport=transport, trust_env=False) as client:
                with pytest.raises(httpx.HTTPError):
                    (await client.post(f"{endpoint.url}/mcp", json=call, headers=headers)).raise_for_status()
            assert await one.exited() == 7
            assert await one.status() == "exited"
            assert await card(other) == 200

    asyncio.run(play())


def test_a_lost_zygote_is_retryable_and_replaced(
    prefork_folder: Callable[[], BuildContext], state_dir: Path, isolation: Isolation, processes: Processes
) -> None:
    image = prefork_folder()

    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir, isolation=isolation) as provider:
            sandbox = await provider.create(SandboxSpec(image=image))
            for pid in processes.all():
                if b"zygote" in cmdline(pid):
                    os.kill(pid, signal.SIGKILL)
            await sandbox.exited()
            assert await sandbox.status() == "gone"
            again = await provider.create(SandboxSpec(image=image))
            assert await card(again) == 200
            assert [record.id async for record in provider.list()] == [again.id]

    asyncio.run(play())


def cmdline(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ("import threading, time\nthreading.Thread(target=time.sleep, args=(999,), daemon=True).start()\n", "threads"),
        ("if __name__ != '__main__':\n    raise ValueError('only as a program')\n", "only as a program"),
    ],
)
def test_what_cannot_be_forked_is_spawned_and_said(
    prefork_folder: Callable[[str], BuildContext],
    state_dir: Path,
    isolation: Isolation,
    processes: Processes,
    caplog: pytest.LogCaptureFixture,
    extra: str,
    words: str,
) -> None:
    image = prefork_folder(extra)

    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir, isolation=isolation) as provider:
            for _ in range(2):
                sandbox = await provider.create(SandboxSpec(image=image))
                assert sandbox.isolation == isolation
                assert await card(sandbox) == 200
                await sandbox.close()

    with caplog.at_level(logging.WARNING):
        asyncio.run(play())
    said = [record.getMessage() for record in caplog.records if "spawned instead" in record.getMessage()]
    assert len(said) == 1
    assert words in said[0]


def test_a_constructor_that_fails_says_why(
    prefork_folder: Callable[[], BuildContext], state_dir: Path, isolation: Isolation, processes: Processes
) -> None:
    image = prefork_folder()
    source = (image.path / "server.py").read_text()
    (image.path / "server.py").write_text(
        source.replace('with open("facts"', 'raise ValueError("no dice")\n        with open("facts"')
    )

    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir, isolation=isolation) as provider:
            with pytest.raises(SandboxNotReady, match="ValueError: no dice") as caught:
                await provider.create(SandboxSpec(image=image))
            assert caught.value.exit_code == 1

    asyncio.run(play())


def test_required_isolation_is_never_lowered(
    prefork_folder: Callable[[], BuildContext], state_dir: Path, isolation: Isolation, processes: Processes
) -> None:
    image = prefork_folder()

    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir, isolation=isolation) as provider:
            spec = SandboxSpec(image=image, isolation="namespace")
            if isolation == "namespace":
                assert (await provider.create(spec)).isolation == "namespace"
            else:
                with pytest.raises(SandboxUnsupported, match="'namespace' was asked for"):
                    await provider.create(spec)

    asyncio.run(play())


def test_one_child_leaves_nothing_for_the_next(
    prefork_folder: Callable[[], BuildContext], state_dir: Path, need_bubblewrap: None, processes: Processes
) -> None:
    image = prefork_folder()
    source = (image.path / "server.py").read_text()
    spoil = """
        for path in ("/tmp/left", "/left", __file__, "facts2"):
            try:
                open(path, "a").write("# left\\n")
            except OSError:
                pass
            else:
                print("wrote", path, flush=True)
        with open("facts\""""
    (image.path / "server.py").write_text(source.replace('\n        with open("facts"', spoil))

    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir, isolation="namespace") as provider:
            sandbox = await provider.create(SandboxSpec(image=image))
            assert await sandbox.logs() == "wrote facts2\n"

    asyncio.run(play())
