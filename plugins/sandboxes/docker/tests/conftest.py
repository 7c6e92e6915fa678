"""An engine for the tests, a way to make it fail, and eyes on what is left."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import pytest
from agent_env.plugin.sandbox import BuildContext
from agent_env.plugin.sandboxing import lease
from agent_env.sandboxes.docker.provider import DockerProvider
from agent_env.testing.sandbox_env import DOCKERFILE, write_env

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from agent_env.plugin.sandbox import SandboxProvider
    from agent_env.testing.sandbox_suite import Fault

T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[4]
SOCKET = "/var/run/docker.sock"


def docker(*arguments: str) -> str:
    return subprocess.run(["docker", *arguments], capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture(name="docker")
def docker_fixture() -> Callable[..., str]:
    """The docker command."""
    return docker


@pytest.fixture(scope="session")
def engine() -> None:
    """A Docker engine with the image that Dockerfiles here start from; under CI=true it has to be there."""
    try:
        docker("version")
        subprocess.run([str(ROOT / ".ci" / "docker-up")], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        reason = f"there is no Docker engine; .ci/docker-up starts one ({error})"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)


def containers() -> set[str]:
    """All containers of AgentEnv on the engine."""
    return set(docker("ps", "-aq", "--filter", "label=agentenv=docker").split())


def is_of_another(container: str) -> bool:
    """Whether a living process that is no descendant of this one made it, such as a server beside the tests."""
    done = subprocess.run(
        ["docker", "inspect", "--format", '{{index .Config.Labels "agentenv.owner"}}', container],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:  # its owner has ended it meanwhile
        return True
    owner: dict[str, Any] = json.loads(done.stdout.strip() or "{}")
    if not lease.alive(owner):
        return False
    pid = int(owner["pid"])
    while pid > 1:
        if pid == os.getpid():
            return False
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
        pid = int(stat[stat.rindex(")") + 2 :].split()[1])
    return True


@pytest.fixture(autouse=True)
def nothing_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """No container of a test may outlive it."""
    if request.node.get_closest_marker("docker") is None:
        yield
        return
    request.getfixturevalue("engine")
    before = containers()
    yield
    left = {container for container in containers() - before if not is_of_another(container)}
    for container in left:
        docker("rm", "-f", container)
    assert left == set()


@pytest.fixture(name="is_of_another")
def is_of_another_fixture() -> Callable[[str], bool]:
    """As the function."""
    return is_of_another


class EnvFolder(Protocol):
    def __call__(self, dockerfile: str = DOCKERFILE, toml: str = "") -> BuildContext: ...


@pytest.fixture
def env_folder(tmp_path: Path) -> EnvFolder:
    """Makes the env of the sandbox checks, with another Dockerfile or an agentenv.toml."""

    def make(dockerfile: str = DOCKERFILE, toml: str = "") -> BuildContext:
        folder = write_env(tmp_path / "test-env", dockerfile=dockerfile)
        if toml:
            (folder / "agentenv.toml").write_text(toml)
        return BuildContext(folder)

    return make


class Proxy:
    """Stands before the engine's socket; what it does to the next creates is its `fault`.

    It listens on a unix socket, or on a TCP port of 127.0.0.1: then the engine seems to be on another machine.
    """

    ANSWERS: ClassVar[dict[str, tuple[int, str]]] = {
        "auth": (401, "unauthorized: authentication required"),
        "rate_limit": (429, "too many requests"),
        "quota": (500, "write /var/lib/docker/tmp: no space left on device"),
    }

    def __init__(self, path: str | None) -> None:
        self.fault: str | None = None
        self.creates = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread.start()
        if path is not None:
            self._server = self._call(asyncio.start_unix_server(self._accepted, path))
            self.host = f"unix://{path}"
        else:
            self._server = self._call(asyncio.start_server(self._accepted, "127.0.0.1", 0))
            self.host = f"tcp://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def close(self) -> None:
        async def stop() -> None:
            self._server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._loop.shutdown_asyncgens()

        self._call(stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = self._loop.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        below_reader, below_writer = await asyncio.open_unix_connection(SOCKET)
        lose = asyncio.Event()
        up = asyncio.create_task(self._upwards(reader, writer, below_writer, lose))
        down = asyncio.create_task(self._downwards(below_reader, writer, lose))
        try:
            await asyncio.wait([up, down], return_when=asyncio.FIRST_COMPLETED)
            if not down.done():
                await asyncio.wait([down], timeout=60)
        finally:
            for task in (up, down):
                task.cancel()
            await asyncio.gather(up, down, return_exceptions=True)
            for end in (writer, below_writer):
                end.transport.abort()

    async def _upwards(
        self,
        reader: asyncio.StreamReader,
        client: asyncio.StreamWriter,
        engine: asyncio.StreamWriter,
        lose: asyncio.Event,
    ) -> None:
        while data := await reader.read(65536):
            first = data.partition(b"\r\n")[0]
            if first.startswith(b"POST ") and b"/containers/create" in first:
                self.creates += 1
                if self.fault == "lost_reply":
                    lose.set()
                elif self.fault in self.ANSWERS:
                    status, message = self.ANSWERS[self.fault]
                    body = b'{"message": "%s"}' % message.encode()
                    head = f"HTTP/1.1 {status} No\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"
                    client.write(f"{head}Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
                    await client.drain()
                    engine.close()
                    return
            engine.write(data)
            await engine.drain()
        if engine.can_write_eof():
            engine.write_eof()

    async def _downwards(self, engine: asyncio.StreamReader, client: asyncio.StreamWriter, lose: asyncio.Event) -> None:
        while data := await engine.read(65536):
            if lose.is_set():
                return
            client.write(data)
            await client.drain()


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    """The engine, as it is when things go wrong."""
    with tempfile.TemporaryDirectory(prefix="ae-") as folder:
        one = Proxy(f"{folder}/docker.sock")
        yield one
        one.close()


@pytest.fixture
def over_tcp(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The engine's address when it is taken for one on another machine; it is this process's DOCKER_HOST then."""
    one = Proxy(None)
    monkeypatch.setenv("DOCKER_HOST", one.host)
    yield one.host
    one.close()


@pytest.fixture
def faulty(proxy: Proxy) -> Callable[[Fault], SandboxProvider]:
    """Makes a provider whose engine has this fault."""

    def make(fault: Fault) -> SandboxProvider:
        if fault == "unavailable":
            return DockerProvider(host="unix:///there/is/no/docker.sock")
        proxy.fault = fault
        return DockerProvider(host=proxy.host)

    return make
