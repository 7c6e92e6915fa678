"""Code of a bundle that runs by one command in a sandbox, and reaches the env that is being graded from there."""

from __future__ import annotations

import asyncio
import http.server
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from agent_env.env.relay import Relay
from agent_env.episode import code_runner
from agent_env.errors import CodeError
from agent_env.plugin.sandbox import CodeRequest, Endpoint, ExecResult, Sandbox
from agent_env.plugin.sandboxing import reach
from agent_env.plugin.sandboxing.code import run_code_in

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

RUNNER = Path(code_runner.__file__)
GRADE = """
import urllib.request

def verify(mcp_url):
    request = urllib.request.Request(mcp_url + "/grade?x=1", data=b"body", headers={"X-Own": "yes"})
    with urllib.request.urlopen(request) as reply:
        return [mcp_url, reply.read().decode()]

def fail(mcp_url):
    raise ValueError("no")

def crash(mcp_url):
    import os
    os._exit(9)
"""


class LocalCommands:
    """As much of a sandbox as running code needs: commands run here, without what this process listens on."""

    async def exec(self, argv: Sequence[str], *, stdin: bytes, timeout: float, **_: Any) -> ExecResult:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *argv[1:],
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await asyncio.wait_for(process.communicate(stdin), timeout)
        return ExecResult(process.returncode or 0, out.decode(), err.decode())


class Echo(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        seen = f"{self.path} {self.headers['Authorization']} {self.headers['X-Own']} {body}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(seen)))
        self.end_headers()
        self.wfile.write(seen)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


@contextmanager
def echo() -> Generator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/base"
        finally:
            server.shutdown()
            thread.join()


def play(folder: Path, function: str, url: str) -> Any:
    (folder / "grade.py").write_text(GRADE)
    request = CodeRequest(folder=folder, file="grade.py", function=function, args=(url,), runner=RUNNER)
    return asyncio.run(run_code_in(cast(Sandbox, LocalCommands()), request))


def test_a_loopback_url_leads_to_the_same_env(tmp_path: Path) -> None:
    with echo() as url:
        there = Endpoint(url=url, headers={"Authorization": "Bearer secret"})
        (tmp_path / "grade.py").write_text(GRADE)

        async def graded() -> tuple[str, list[str]]:
            async with Relay(there) as relay:
                request = CodeRequest(
                    folder=tmp_path, file="grade.py", function="verify", args=(f"{relay.url}/mcp",), runner=RUNNER
                )
                return relay.url, await run_code_in(cast(Sandbox, LocalCommands()), request)

        here, (used, seen) = asyncio.run(graded())
    assert seen == "/base/mcp/grade?x=1 Bearer secret yes body"
    assert used.startswith("http://127.0.0.1:")
    assert not used.startswith(here)
    assert reach.behind([f"{here}/mcp"]) == {}


def test_other_urls_are_left_alone(tmp_path: Path) -> None:
    with echo() as url:
        assert play(tmp_path, "verify", url)[0] == url


@pytest.mark.parametrize(("function", "said"), [("fail", "ValueError: no"), ("crash", "exit code 9")])
def test_a_failure_is_told(tmp_path: Path, function: str, said: str) -> None:
    with pytest.raises(CodeError, match=said):
        play(tmp_path, function, "http://127.0.0.1:1")


def test_a_url_is_known_until_its_last_user_has_gone() -> None:
    """An env that listens on loopback itself: nothing listens for it, and it leads nowhere from another machine."""

    async def play() -> None:
        endpoint = Endpoint(url="http://127.0.0.1:1/base/")
        asked = [{"env": {"mcp_url": "http://127.0.0.1:1/base/mcp"}}, "http://127.0.0.1:1/basement"]
        async with Relay(endpoint) as one:
            async with Relay(endpoint) as other:
                assert one.url == other.url == "http://127.0.0.1:1/base"
            await other.close()
            assert reach.named(asked) == {one.url: endpoint}
            assert reach.behind(asked) == {}
        assert reach.named(asked) == reach.named(["http://127.0.0.1:1/basement"]) == {}

    asyncio.run(play())
