"""Env folders, providers and eyes on processes for the tests of the process sandbox."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest
from agent_env.plugin.sandbox import BuildContext
from agent_env.sandboxes.process import cgroups

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from agent_env.plugin.sandbox import Isolation

SERVER = """
import http.server, os, socketserver

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = repr(dict(os.environ)).encode()
        self.send_response(STATUS)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def address_string(self):
        return "client"
    def log_message(self, *args):
        pass

def serve(tcp):
    if tcp or "AGENTENV_UDS" not in os.environ:
        http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["MCP_PORT"])), Handler).serve_forever()
    else:
        socketserver.ThreadingUnixStreamServer(os.environ["AGENTENV_UDS"], Handler).serve_forever()
"""

PREFORKED = """
import os, random, sys
from agent_env.env import Env, tool

BIRTH = os.getpid()

class Dice(Env, name="dice"):
    "Rolls."

    def __init__(self) -> None:
        with open("facts", "w") as file:
            file.write(f"{random.random()} {os.environ.get('SECRET', '-')} {os.getcwd()}")

    @tool
    def crash(self) -> str:
        "Ends the process."
        os._exit(7)

if __name__ == "__main__":
    Dice.serve()
"""


class EnvFolder(Protocol):
    def __call__(self, body: str = "", *, status: int = 200, toml: str = "", tcp: bool = False) -> BuildContext: ...


def bubblewrap_works() -> bool:
    program = shutil.which("bwrap")
    if program is None:
        return False
    return subprocess.run([program, "--ro-bind", "/", "/", "--unshare-all", "true"], check=False).returncode == 0


BUBBLEWRAP = bubblewrap_works()


@pytest.fixture
def need_bubblewrap() -> None:
    if not BUBBLEWRAP:
        if os.environ.get("CI") == "true":
            pytest.fail("bubblewrap has to work under CI")
        pytest.skip("bubblewrap does not work here")


@pytest.fixture(params=["none", "namespace"])
def isolation(request: pytest.FixtureRequest) -> Isolation:
    """Every test that uses it runs with plain processes and with bubblewrap."""
    if request.param == "namespace":
        request.getfixturevalue("need_bubblewrap")
    value: Isolation = request.param
    return value


@pytest.fixture
def state_dir() -> Iterator[Path]:
    """A short path: pytest's own temp folders may be too long for a unix socket. Nothing may be left in it."""
    path = Path(tempfile.mkdtemp(prefix="ae-"))
    yield path
    left = sorted(str(item.relative_to(path)) for item in path.rglob("*"))
    shutil.rmtree(path)
    assert left == []


@pytest.fixture
def env_folder(tmp_path: Path) -> EnvFolder:
    """Makes an env: ``body`` runs before the server, which answers every GET with its environment."""

    def make(body: str = "", *, status: int = 200, toml: str = "", tcp: bool = False) -> BuildContext:
        folder = tmp_path / f"env{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        source = SERVER.replace("STATUS", str(status))
        (folder / "server.py").write_text(f"{source}\n{body}\nserve({tcp})\n")
        (folder / "Dockerfile").write_text('FROM python:3.11-slim\nWORKDIR /srv/env\nCMD ["python", "server.py"]\n')
        if toml:
            (folder / "agentenv.toml").write_text(toml)
        return BuildContext(folder)

    return make


@pytest.fixture
def prefork_folder(tmp_path: Path) -> Callable[[str], BuildContext]:
    """Makes an env that asks for prefork; ``extra`` is put at the top of its module."""

    def make(extra: str = "") -> BuildContext:
        folder = tmp_path / f"dice{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        (folder / "server.py").write_text(extra + PREFORKED)
        (folder / "agentenv.toml").write_text('[process]\ncommand = ["python", "server.py"]\nprefork = true\n')
        return BuildContext(folder)

    return make


def alive(pid: int) -> bool:
    try:
        data = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return data[data.rindex(b")") + 2 : data.rindex(b")") + 3] != b"Z"


class Processes:
    """What runs of a state folder: its path, or the name of a server run in it, is in the environment or the command
    line of everything there.
    """

    def __init__(self, state: Path) -> None:
        self._state = state
        self._marks = {os.fsencode(str(state))}

    def all(self) -> list[int]:
        self._marks |= {os.fsencode(path.name) for path in self._state.iterdir()}
        found: list[int] = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                text = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if any(mark in text for mark in self._marks) and alive(int(entry.name)):
                found.append(int(entry.name))
        return found

    def wait_none(self, seconds: float = 20.0) -> None:
        deadline = time.monotonic() + seconds
        while (left := self.all()) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert left == []

    async def wait_none_async(self) -> None:
        await asyncio.to_thread(self.wait_none)


@pytest.fixture
def processes(state_dir: Path) -> Iterator[Processes]:
    """Fails a test that leaves a process."""
    watch = Processes(state_dir)
    yield watch
    watch.wait_none()


@pytest.fixture
def run_python(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts Python code in a process of its own, with pipes; ended at the end of the test."""
    started: list[subprocess.Popen[str]] = []

    def start(code: str, *arguments: str) -> subprocess.Popen[str]:
        script = tmp_path / f"script{len(started)}.py"
        script.write_text(code)
        process = subprocess.Popen(
            [sys.executable, str(script), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


class Cells:
    """The cgroups that tests of this process make."""

    def __init__(self) -> None:
        self.here = cgroups.look()
        self._before = set(self._all())

    def _all(self) -> list[Path]:
        found = [path for one in self.here.hierarchies for path in Path(one.home).rglob("agentenv-*") if path.is_dir()]
        return [path for path in found if path.name != cgroups.LEAF]

    def left(self) -> list[Path]:
        """Folders of server runs."""
        return [path for path in self._all() if path not in self._before]

    def boxes(self) -> list[Path]:
        """Folders that hold the processes of sandboxes."""
        return [path for run in self.left() for path in run.glob("*/box")]


@pytest.fixture
def cells() -> Iterator[Cells]:
    """Skips a test where not all limits can be kept; fails one that leaves a cgroup."""
    watch = Cells()
    if watch.here.why_not:
        pytest.skip(f"limits cannot be kept here: {watch.here.why_not}")
    yield watch
    deadline = time.monotonic() + 20
    while watch.left() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert watch.left() == []
