"""Running a server: addresses, the end by a signal, and what is left."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from agent_env.errors import AgentEnvError, SandboxUnavailable, UsageError
from agent_env.openenv import build_app
from agent_env.openenv.client import Session
from agent_env.openenv.run import running_server
from agent_env.openenv.run import serve as serve_app

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
    import logging, subprocess, sys
    from pathlib import Path
    from agent_env.bundle import load_bundle
    from agent_env.episode import Engine
    from agent_env.openenv import build_app
    from agent_env.openenv.run import run
    from agent_env.plugin.tools import ToolSpec
    from agent_env.testing.in_process import InProcessDeployer, InProcessEnv

    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    marks = Path(sys.argv[2])

    class Env(InProcessEnv):
        # a process per env, as sandboxes have them
        def __init__(self):
            import asyncio
            async def slow(given):
                await asyncio.sleep(given["seconds"])
                return ""
            super().__init__(specs=[ToolSpec("slow", "", {"type": "object"})], tools={"slow": slow})
            self.process = subprocess.Popen(["sleep", "600"])
            (marks / str(self.process.pid)).write_text("")
        async def close(self):
            import asyncio
            if not self.closed:
                await super().close()
                await asyncio.sleep(0.2)
                self.process.kill()
                self.process.wait()

    engine = Engine(load_bundle(sys.argv[1]), deployer=InProcessDeployer({"calc": Env}))
    run(build_app("", engine=engine), port=0, started=lambda url: print(url, flush=True))
    print("ended", flush=True)
"""


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_and_all_it_runs(number: int, world: Any, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM))
    marks = tmp_path / "marks"
    marks.mkdir()
    command = [sys.executable, str(program), str(world.engine.bundle.path), str(marks)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        url = process.stdout.readline().strip()

        async def main() -> None:
            async with contextlib.AsyncExitStack() as stack:
                sessions = [await stack.enter_async_context(Session(url)) for _ in range(4)]
                for session in sessions[:3]:
                    assert (await session.reset(split="single", index=0)).prompt
                calls = [asyncio.create_task(session.call_tool("slow", {"seconds": 600})) for session in sessions[:2]]
                async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=30) as http:
                    step = {"action": {"tool_name": "slow", "arguments": {"seconds": 600}}}
                    request = asyncio.create_task(http.post("/step", json=step))
                    async with asyncio.timeout(20):
                        while len(list(marks.iterdir())) < 4:  # noqa: ASYNC110 another process makes them
                            await asyncio.sleep(0.01)
                    await asyncio.sleep(0.2)
                    process.send_signal(number)
                    gone = await asyncio.gather(*calls, return_exceptions=True)
                    assert ["stopped or restarts" in str(error) for error in gone] == [True, True]
                    answer = await request
                    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")

        asyncio.run(main())
        out, err = process.communicate(timeout=30)
    assert out == "ended\n"
    assert process.returncode == 0
    assert not [pid for pid in (int(mark.name) for mark in marks.iterdir()) if alive(pid)]
    assert "serving bundle calc-bundle: all 6, eval 3, single 3" in err
    assert "Traceback" not in err
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=1)


SLOW_TO_START = """
    import asyncio, logging, sys
    from agent_env.bundle import load_bundle
    from agent_env.episode import Engine
    from agent_env.openenv import build_app
    from agent_env.openenv.run import run
    from agent_env.testing.in_process import InProcessDeployer, InProcessEnv

    logging.basicConfig(level=logging.INFO, stream=sys.stderr)

    class Deployer(InProcessDeployer):
        async def start(self, *_, **__):
            print("starting", flush=True)
            try:
                await asyncio.sleep(600)
            finally:
                print("given up", flush=True)

    engine = Engine(load_bundle(sys.argv[1]), deployer=Deployer({"calc": InProcessEnv}))
    run(build_app("", engine=engine), port=0, started=lambda url: print(url, flush=True))
    print("ended", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_start_that_takes_long(number: int, world: Any, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(SLOW_TO_START))
    command = [sys.executable, str(program), str(world.engine.bundle.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "starting\n"
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert out == "given up\nended\n"
    assert process.returncode == 0
    assert "stopped before it had started" in err
    assert "listening" not in err
    assert "episodes:" not in err, "there were none to count"
    assert "Traceback" not in err


SLOW_TO_END = SLOW_TO_START.replace("async def start(self, *_, **__):", "async def close(self):").replace(
    '"starting"', '"closing"'
)


def test_a_second_signal_does_not_wait_for_a_service_that_does_not_answer(world: Any, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(SLOW_TO_END))
    command = [sys.executable, str(program), str(world.engine.bundle.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("http://")
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "closing\n"
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert out == "given up\nended\n"
    assert process.returncode == 0
    assert "`agentenv sandbox reap`, or the next server, ends them" in err
    assert "Traceback" not in err


def test_two_signals_at_once_end_it_without_a_traceback(world: Any, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(SLOW_TO_END).replace("asyncio.sleep(600)", "super().close()"))
    command = [sys.executable, str(program), str(world.engine.bundle.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("http://")
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert out == "closing\ngiven up\nended\n"
    assert process.returncode == 0
    assert "episodes: 0 scored" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("way", ["running_server", "serve"])
def test_cancelling_a_start_that_takes_long_leaves_nothing(way: str, world: Any, monkeypatch: Any, until: Any) -> None:
    seen: list[str] = []

    async def start(*_: object, **__: object) -> None:
        seen.append("starting")
        try:
            await asyncio.sleep(600)
        finally:
            seen.append("given up")

    monkeypatch.setattr(world.deployer, "start", start)

    async def program() -> None:
        app = build_app("", engine=world.engine)
        if way == "serve":
            await serve_app(app, port=0)
        async with running_server(app):
            pass

    async def main() -> None:
        running = asyncio.create_task(program())
        await until(lambda: seen == ["starting"])
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert seen == ["starting", "given up"]
        assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]

    asyncio.run(main())


@pytest.mark.parametrize("way", ["running_server", "serve"])
@pytest.mark.parametrize("times", [1, 2])
def test_cancelling_a_server_ends_it_in_order(
    way: str, times: int, world: Any, monkeypatch: Any, until: Any, caplog: Any
) -> None:
    seen: list[str] = []
    go_on = asyncio.Event()

    async def close() -> None:
        seen.append("closing")
        await go_on.wait()
        seen.append("closed")

    monkeypatch.setattr(world.deployer, "close", close)

    async def program() -> None:
        app = build_app("", engine=world.engine)
        if way == "serve":
            await serve_app(app, port=0, started=seen.append)
        async with running_server(app) as url:
            seen.append(url)
            await asyncio.Event().wait()

    async def main() -> None:
        running = asyncio.create_task(program())
        await until(lambda: seen)
        running.cancel()
        await until(lambda: seen[1:] == ["closing"])
        if times == 2:
            running.cancel()
        await asyncio.sleep(0)
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert seen[1:] == ["closing", "closed"]
        assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]

    asyncio.run(main())
    assert "Traceback" not in caplog.text


def test_a_unix_socket(world: Any, tmp_path: Path) -> None:
    path = tmp_path / "server.sock"

    async def main() -> None:
        for _ in range(2):  # what a killed server left is taken over
            with socket.socket(socket.AF_UNIX) as stale:
                stale.bind(str(path))
            async with running_server(build_app("", engine=world.engine), uds=path) as url:
                assert url == f"unix:{path}"
                assert path.stat().st_mode & 0o077 == 0
                transport = httpx.AsyncHTTPTransport(uds=str(path))
                async with httpx.AsyncClient(transport=transport, base_url="http://x", trust_env=False) as http:
                    assert (await http.get("/health")).json() == {"status": "healthy"}
                with pytest.raises(UsageError, match="another server"):
                    async with running_server(build_app("", engine=world.engine), uds=path):
                        pass
            assert not path.exists()
            break

    asyncio.run(main())


def test_an_address_in_use_is_one_clear_error(world: Any) -> None:
    async def main() -> None:
        async with running_server(build_app("", engine=world.engine)) as url:
            port = int(url.rpartition(":")[2])
            with pytest.raises(UsageError, match=f"{port}.*another port"):
                await serve_app(build_app("", engine=world.engine), port=port)
        with pytest.raises(UsageError, match=r"no\.such\.host\.invalid"):
            await serve_app(build_app("", engine=world.engine), host="no.such.host.invalid")

    asyncio.run(main())


def test_an_engine_that_cannot_start_says_why(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def start(*_: object, **__: object) -> None:
        raise SandboxUnavailable("no bubblewrap here")

    monkeypatch.setattr(world.deployer, "start", start)

    async def main() -> None:
        with pytest.raises(AgentEnvError, match="no bubblewrap here"):
            async with running_server(build_app("", engine=world.engine)):
                pass

    asyncio.run(main())


def test_cancelling_the_program_still_ends_the_server(world: Any, until: Any) -> None:
    async def program() -> None:
        async with running_server(build_app("", engine=world.engine)) as url, Session(url) as session:
            await session.reset(split="single", index=0)
            await session.call_tool("slow", {"seconds": 600, "name": "x"})

    async def main() -> None:
        running = asyncio.create_task(program())
        await until(lambda: world.began == ["x"])
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert world.left() == 0
        assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]

    asyncio.run(main())


def test_a_server_counts_failures_by_kind(serve: Any, raw: Any, world: Any, caplog: Any) -> None:
    caplog.set_level("INFO")

    async def main() -> None:
        async with running_server(build_app("", engine=world.engine)) as url, raw(url) as ws:
            for ending in ("die", "die", "slow"):
                await ws.reset()
                await ws.call(ending, seconds=60, notes={"timeout_s": 0.05})
            await ws.reset()
            await ws.call("end_turn", response="done")

    asyncio.run(main())
    assert "episodes: 1 scored, 3 failed (env 2, tool_timeout 1)" in caplog.text
    lines = [
        record for record in caplog.records if record.name == "agent_env.openenv" and record.levelname == "WARNING"
    ]
    assert len(lines) == 3


def test_importing_the_server_loads_no_peer() -> None:
    code = "import sys, json; from agent_env.openenv import build_app; print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout)
    assert not {"openenv", "fastmcp", "mcp", "gradio", "uvicorn", "httpx", "numpy", "rich", "pytest"} & set(loaded)


@pytest.mark.parametrize("configured", [True, False])
def test_a_server_of_uvicorns_own_says_what_it_serves(world: Any, tmp_path: Path, configured: bool) -> None:
    program = tmp_path / "program.py"
    text = """
        import asyncio, logging, sys
        import uvicorn
        from agent_env.bundle import load_bundle
        from agent_env.episode import Engine
        from agent_env.openenv import build_app
        from agent_env.testing.in_process import InProcessDeployer, InProcessEnv

        if CONFIGURED:
            logging.basicConfig(level=logging.INFO, format="mine %(message)s", stream=sys.stderr)
        app = build_app("", engine=Engine(load_bundle(sys.argv[1]), deployer=InProcessDeployer({"calc": InProcessEnv})))

        async def main():
            server = uvicorn.Server(uvicorn.Config(app, port=0, ws_max_size=1 << 27))
            serving = asyncio.create_task(server.serve())
            while not server.started:
                await asyncio.sleep(0.02)
            server.should_exit = True
            await serving

        asyncio.run(main())
    """
    program.write_text(textwrap.dedent(text).replace("CONFIGURED", str(configured)))
    done = subprocess.run(
        [sys.executable, str(program), str(world.engine.bundle.path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    lines = [line for line in done.stderr.splitlines() if "serving bundle" in line]
    assert len(lines) == 1
    assert lines[0].startswith("mine " if configured else "INFO: ")
    assert "all " in lines[0]
