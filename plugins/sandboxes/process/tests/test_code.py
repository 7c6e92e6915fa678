"""Verifier code in a child of a warm host."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.episode import code_runner
from agent_env.errors import CodeError, SandboxTimeout
from agent_env.plugin.sandbox import CodeRequest, HostImage
from agent_env.sandboxes.process.provider import ProcessProvider

if TYPE_CHECKING:
    from agent_env.plugin.sandbox import Isolation

    Processes = Any

CODE = """
import os, random, sys, subprocess, time
from helper import double

async def good(x):
    print("noise")
    return {"double": double(x), "random": random.random(), "cwd": os.getcwd(), "key": os.environ.get("SOME_API_KEY")}

def bad(): raise ValueError("wrong answer sheet")
def crash(): print("last words", file=sys.stderr, flush=True); os.abort()
def leave(): os._exit(4)
def hang():
    subprocess.Popen(["setsid", "sleep", "95"])
    time.sleep(95)
def orphan():
    subprocess.Popen(["setsid", "sleep", "95"])
    return "done"
def big(): return "x" * 10_000_000
def nonsense(): return float("nan")
def chatty():
    print("y" * 3_000_000, file=sys.stderr)
    return 1
def spoil():
    open(__file__, "a").write("# spoiled")
    return open(__file__).read()
def memory(): return os.read(0, 10).decode()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "verifier"
    (path / "sub").mkdir(parents=True)
    (path / "verify.py").write_text(CODE)
    (path / "helper.py").write_text("def double(x): return 2 * x\n")
    (path / "notes.txt").write_text("not code")
    return path


def test_code(
    folder: Path, state_dir: Path, isolation: Isolation, processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "secret")
    before = (folder / "verify.py").read_bytes()

    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir, isolation=isolation) as provider:

            async def run(function: str, *args: Any, timeout: float = 30, max_output: int = 1_000_000) -> Any:
                request = CodeRequest(
                    folder=folder,
                    file="verify.py",
                    function=function,
                    args=args,
                    runner=Path(code_runner.__file__),
                    timeout=timeout,
                    max_output=max_output,
                )
                return await provider.run_code(HostImage(), request)

            answers = await asyncio.gather(*(run("good", i) for i in range(8)))
            assert [answer["double"] for answer in answers] == [2 * i for i in range(8)]
            assert len({answer["random"] for answer in answers}) == 8
            assert len({answer["cwd"] for answer in answers}) == 8
            assert {answer["key"] for answer in answers} == {None}
            idle = set(processes.all())
            with pytest.raises(CodeError, match="ValueError: wrong answer sheet"):
                await run("bad")
            with pytest.raises(CodeError, match=r"(?s)crash\(\) was ended by SIGABRT.*last words"):
                await run("crash")
            with pytest.raises(CodeError, match="ended with exit code 4"):
                await run("leave")
            with pytest.raises(CodeError, match="no function"):
                await run("missing")
            with pytest.raises(CodeError, match="more than 1000000"):
                await run("big")
            with pytest.raises(CodeError, match="no JSON"):
                await run("nonsense")
            assert await run("chatty") == 1
            assert await run("orphan") == "done"
            assert "# spoiled" in await run("spoil")
            assert await run("memory") == ""
            with pytest.raises(SandboxTimeout, match=r"hang\(\) ran longer than 0.5 s"):
                await run("hang", timeout=0.5)
            task = asyncio.create_task(run("hang"))
            await asyncio.sleep(0.2)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            while set(processes.all()) - idle:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    asyncio.run(play())
    assert (folder / "verify.py").read_bytes() == before


def test_code_reaches_a_server_on_loopback(folder: Path, state_dir: Path, isolation: Isolation) -> None:
    (folder / "verify.py").write_text(
        "import urllib.request\ndef verify(url):\n    return urllib.request.urlopen(url, timeout=5).read().decode()\n"
    )

    async def play() -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
        request = CodeRequest(folder, "verify.py", "verify", (url,), Path(code_runner.__file__))
        async with server, ProcessProvider(state_dir=state_dir, isolation=isolation) as provider:
            assert await provider.run_code(HostImage(), request) == "hi"

    asyncio.run(play())


def test_too_much_code_is_refused(folder: Path, state_dir: Path) -> None:
    (folder / "data.py").write_text("x = '" + "y" * 6_000_000 + "'\n")
    (folder / "link.txt").symlink_to("/etc/passwd")
    request = CodeRequest(folder, "verify.py", "good", (1,), Path(code_runner.__file__))

    async def play() -> None:
        async with ProcessProvider(state_dir=state_dir) as provider:
            with pytest.raises(CodeError, match="more than 5 MiB"):
                await provider.run_code(HostImage(), request)

    asyncio.run(play())
