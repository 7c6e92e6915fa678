"""Code that runs where this machine's loopback is not, and the URLs that it is given: without an engine.

What runs in a container runs here in a process of this machine.
"""

from __future__ import annotations

import ast
import asyncio
import os
import sys
import tempfile
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from agent_env.episode import code_runner
from agent_env.errors import SandboxTimeout
from agent_env.plugin.sandbox import CodeRequest, Endpoint, ImageRef
from agent_env.plugin.sandboxing import reach
from agent_env.plugin.sandboxing.probe import http_status
from agent_env.sandboxes.docker.codebox import CodeBoxes, host_code
from agent_env.sandboxes.docker.mux import WINDOW

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from agent_env.plugin.sandbox import SandboxSpec
    from agent_env.sandboxes.docker.provider import DockerProvider

RUNNER = Path(code_runner.__file__)
IMAGE = ImageRef("any")
CODE = """
import os, socket, subprocess, sys, time
from pathlib import Path
from urllib.parse import urlsplit

def connect(url):
    to = urlsplit(url)
    return socket.create_connection((to.hostname, to.port), 20)

def ask(url, line, body=b"", sock=None):
    with sock or connect(url) as sock:
        sock.sendall(line.encode() + b"\\n" + body)
        sock.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: sock.recv(65536), b""))

def where(url):
    return url

def echo(url, size):
    return ask(url, "echo", os.urandom(1) * size)[-9:].hex(), len(ask(url, "flood %d" % size))

def many(url, count):
    from concurrent.futures import ThreadPoolExecutor
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(lambda n: ask(url, "echo", b"%d" % n).decode(), range(count)))

def unread(url, size):
    with connect(url) as held:
        held.sendall(b"flood %d\\n" % size)
        time.sleep(0.2)
        return ask(url, "echo", b"another").decode()

def others(url, folder, own, other):
    (Path(folder) / ("tmp" + own)).write_text(url)
    os.rename(folder + "/tmp" + own, folder + "/" + own)
    while not (Path(folder) / other).exists():
        time.sleep(0.02)
    try:
        stolen = ask((Path(folder) / other).read_text(), "echo", b"stolen").decode()
    except OSError:
        stolen = ""
    (Path(folder) / (own + ".tried")).touch()
    while not (Path(folder) / (other + ".tried")).exists():
        time.sleep(0.02)
    program = "import sys; sys.path.insert(0, %r); import code_of; print(code_of.ask(%r, 'who').decode())"
    program %= (os.path.dirname(__file__), url)
    child = subprocess.check_output([sys.executable, "-c", program], text=True).strip()
    return [stolen, ask(url, "who").decode(), child]

def hold(url, file):
    Path(file + "~").write_text("%d %s" % (os.getpid(), url))
    os.rename(file + "~", file)
    return len(ask(url, "hold"))

def refused(url):
    try:
        return ask(url, "echo", b"x").decode()
    except OSError as error:
        return type(error).__name__
"""


class Server:
    """What stands behind a URL."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.held = asyncio.Event()
        self.let_go = asyncio.Event()
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            words = (await reader.readline()).decode().split()
            if words == ["echo"]:
                writer.write(await reader.read())
            elif words == ["who"]:
                writer.write(self.name.encode())
            elif words[:1] == ["flood"]:
                writer.write(bytes(int(words[1])))
            elif words == ["hold"]:
                self.held.set()
                await reader.read()
                while not writer.transport.is_closing():
                    writer.write(b"still here")
                    await writer.drain()
                    await asyncio.sleep(0.02)
            await writer.drain()
        except OSError:
            pass
        finally:
            self.let_go.set()
            writer.close()

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[str]:
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        reach.publish(url, Endpoint(url="http://localhost", uds="/somewhere"))
        try:
            yield url
        finally:
            reach.withdraw(url)
            server.close()
            await server.wait_closed()


class Machine:
    """As much of a provider as running code needs; its one container is a process here."""

    shares_loopback = False

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process: asyncio.subprocess.Process | None = None
        self.closed = False
        self.expires_at = time.time() + 9999

    async def create_for_code(self, spec: SandboxSpec) -> Machine:
        path = self.folder / "s"
        command = spec.command or ()
        env = {**os.environ, **spec.env, "AGENTENV_UDS": str(path)}
        self.process = await asyncio.create_subprocess_exec(sys.executable, *command[1:], env=env)
        while await http_status(str(path), "/", timeout=5) != 200:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.02)
        return self

    async def endpoint(self) -> Endpoint:
        return Endpoint(url="http://localhost", uds=str(self.folder / "s"))


class Codes:
    """Runs functions of `CODE`."""

    def __init__(self, folder: Path, machine: Machine) -> None:
        self.folder = folder
        self._boxes = CodeBoxes(cast("DockerProvider", machine))

    async def __call__(self, function: str, *args: Any, timeout: float = 60) -> Any:
        return await self._boxes.run(
            IMAGE, CodeRequest(self.folder / "code", "code_of.py", function, args, RUNNER, timeout=timeout)
        )


@asynccontextmanager
async def machine(folder: Path) -> AsyncGenerator[Codes]:
    (folder / "code").mkdir()
    (folder / "code" / "code_of.py").write_text(CODE)
    with tempfile.TemporaryDirectory(prefix="ae-") as short:
        made = Machine(Path(short))
        try:
            yield Codes(folder, made)
            assert made.process is not None
            assert children(made.process.pid) == [], "something of the code was left"
        finally:
            if made.process is not None:
                made.process.kill()
                await made.process.wait()


def children(pid: int) -> list[int]:
    """Processes below one; those that have ended and are not yet waited for do not count."""
    deadline = time.monotonic() + 20
    while True:
        found = [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        alive = [one for one in found if state(one) not in {"", "Z"}]
        if not alive or time.monotonic() > deadline:
            return alive
        time.sleep(0.02)


def state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def test_images_with_an_old_python_can_run_it() -> None:
    ast.parse(host_code(), feature_version=(3, 7))


def test_a_url_leads_there(tmp_path: Path) -> None:
    async def play() -> None:
        server = Server("one")
        async with machine(tmp_path) as code, server.open() as url:
            assert (await code("where", {"env": {"url": url + "/mcp"}}))["env"]["url"] != url + "/mcp"
            assert await code("where", f"{url}1/no/{url}") == f"{url}1/no/{url}", "these are not that URL"
            size = 3 * WINDOW + 17
            tail, flood = await code("echo", url, size)
            assert (len(tail), len(set(tail[::2])), flood) == (18, 1, size)
            assert await code("many", url, 30) == [str(nth) for nth in range(30)]
            assert server.connections == 32

    asyncio.run(play())


def test_a_connection_that_nobody_reads_holds_up_no_other(tmp_path: Path) -> None:
    async def play() -> None:
        async with machine(tmp_path) as code, Server("one").open() as url:
            assert await code("unread", url, 64 * WINDOW) == "another"

    asyncio.run(play())


def test_each_verification_reaches_its_own_env_only(tmp_path: Path) -> None:
    """Two that run side by side in one container, each knowing the other's URL; what they start themselves may ask."""

    async def play() -> None:
        one, two = Server("one"), Server("two")
        async with machine(tmp_path) as code, one.open() as first, two.open() as second:
            both = [code("others", first, str(tmp_path), "a", "b"), code("others", second, str(tmp_path), "b", "a")]
            assert await asyncio.gather(*both) == [["", "one", "one"], ["", "two", "two"]]

    asyncio.run(play())


def test_a_url_ends_with_its_verification(tmp_path: Path) -> None:
    async def play() -> None:
        server = Server("one")
        async with machine(tmp_path) as code, server.open() as url:
            here = await code("where", url)
            assert here != url
            assert await code("refused", here) in {"ConnectionRefusedError", "ConnectionResetError"}
            assert server.connections == 0

    asyncio.run(play())


@pytest.mark.parametrize("how", ["cancelled", "late"])
def test_code_that_is_given_up_leaves_nothing(how: str, tmp_path: Path) -> None:
    async def play() -> None:
        server = Server("one")
        async with machine(tmp_path) as code, server.open() as url:
            file = tmp_path / "held"
            task = asyncio.create_task(code("hold", url, str(file), timeout=5 if how == "late" else 60))
            await server.held.wait()
            pid, _, there = file.read_text().partition(" ")
            if how == "cancelled":
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            else:
                with pytest.raises(SandboxTimeout, match=r"longer than 5 s"):
                    await task
            async with asyncio.timeout(20):
                await server.let_go.wait()
                while state(int(pid)) not in {"", "Z"}:  # noqa: ASYNC110 - another process
                    await asyncio.sleep(0.02)
            assert await code("refused", there) in {"ConnectionRefusedError", "ConnectionResetError"}

    asyncio.run(play())


def test_an_env_that_is_gone_is_a_refused_connection(tmp_path: Path) -> None:
    async def play() -> None:
        async with machine(tmp_path) as code:
            async with Server("one").open() as url:
                pass
            reach.publish(url, Endpoint(url="http://localhost", uds="/somewhere"))
            try:
                assert await code("refused", url) in {"", "ConnectionResetError", "BrokenPipeError"}
            finally:
                reach.withdraw(url)

    asyncio.run(play())
