"""Serving in a child that was forked from a warm interpreter, as prefork does."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
from agent_env.env.client import EnvClient
from agent_env.errors import EnvError
from agent_env.plugin.sandbox import Endpoint

_ZYGOTE = """
    import importlib.util, json, os, sys, threading
    from agent_env.env.server import find_env, serve_instance
    from agent_env.env.sockets import listen_uds

    spec = importlib.util.spec_from_file_location("author", sys.argv[1])
    module = importlib.util.module_from_spec(spec)
    sys.modules["author"] = module
    spec.loader.exec_module(module)
    env = find_env(module)
    # Parent and child share the pipe: a line has to be one write, which print's is not where output is unbuffered.
    say = lambda what: os.write(1, f"{what}\\n".encode())
    assert threading.active_count() == 1
    for line in sys.stdin:
        path, given = json.loads(line)
        pid = os.fork()
        if pid == 0:
            try:
                if given:
                    serve_instance(env(), sock=listen_uds(path))
                else:
                    serve_instance(env(), uds=path, ready=lambda: say("ready"))
            finally:
                os._exit(0)
        say(pid)
"""


def test_children_of_a_warm_interpreter_are_envs_of_their_own(tmp_path: Path) -> None:
    author = Path(__file__).parent / "servers" / "ours.py"
    zygote = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(_ZYGOTE), str(author)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert zygote.stdin is not None
    assert zygote.stdout is not None
    paths = [str(tmp_path / f"{number}.sock") for number in range(3)]
    pids: list[int] = []
    for number, path in enumerate(paths):
        print(json.dumps([path, number > 0]), file=zygote.stdin, flush=True)
        words = {zygote.stdout.readline().strip() for _ in range(1 if number else 2)}
        pids.append(int((words - {"ready"}).pop()))

    async def main() -> None:
        clients = [EnvClient(Endpoint("http://env", uds=path), name=path) for path in paths]
        for client in clients:
            await _open(client)
        for number, client in enumerate(clients):
            await client.call_tool("set_hour", {"hour": number})
        read: list[Any] = [(await client.call_tool("read", {})).structured["hour"] for client in clients]
        assert read == [0, 1, 2]
        os.kill(pids[0], signal.SIGKILL)
        with pytest.raises(EnvError, match=r"0\.sock"):
            await clients[0].call_tool("read", {})
        for client in clients:
            await client.close()

    try:
        asyncio.run(main())
    finally:
        for pid in pids[1:]:
            os.kill(pid, signal.SIGTERM)
        zygote.stdin.close()
        zygote.wait(10)
        zygote.stdout.close()
    for path in paths[1:]:
        _gone(path)


async def _open(client: EnvClient) -> None:
    for _ in range(200):
        try:
            await client.open()
        except EnvError:
            await asyncio.sleep(0.02)
        else:
            return
    raise AssertionError("the child did not answer")


def _gone(path: str) -> None:
    for _ in range(500):
        if not Path(path).exists():
            return
        time.sleep(0.01)
    raise AssertionError(f"{path} is left behind")


def test_a_tool_that_does_not_come_back_cannot_keep_the_process(tmp_path: Path) -> None:
    code = """
        import sys
        sys.path.insert(0, sys.argv[1])
        from ours import Clock
        from agent_env.env.server import serve_instance
        serve_instance(Clock(), uds=sys.argv[2], grace=0.1, ready=lambda: print("ready", flush=True))
    """
    path = str(tmp_path / "hung.sock")
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), str(Path(__file__).parent / "servers"), path],
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()

    async def main() -> None:
        async with EnvClient(Endpoint("http://env", uds=path), name="hung") as client:
            call = asyncio.create_task(client.call_tool("slow", {"seconds": 3600}))
            await asyncio.sleep(0.1)
            await client.call_tool("clock_name", {})  # when this one is answered, the one before it is under way
            process.send_signal(signal.SIGTERM)
            with pytest.raises(EnvError, match="env 'hung'"):
                await call

    asyncio.run(main())
    assert process.wait(20) == 143
    process.stdout.close()
