"""Waiting for a container's server, and the way to it."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import stat
from typing import TYPE_CHECKING, Any, cast

from agent_env.errors import SandboxError, SandboxGone, SandboxNotReady, SandboxUnsupported
from agent_env.plugin.sandbox import Endpoint
from agent_env.plugin.sandboxing.probe import http_status
from agent_env.sandboxes.docker import containers, execs, ports
from agent_env.sandboxes.docker.failures import NAME, EngineError, to_error
from agent_env.sandboxes.docker.labels import part
from agent_env.sandboxes.docker.plan import SHARED
from agent_env.sandboxes.docker.tunnel import Tunnel, relay_argv

if TYPE_CHECKING:
    from agent_env.plugin.sandbox import SandboxSpec
    from agent_env.sandboxes.docker.engine import Engine
    from agent_env.sandboxes.docker.labels import About

_FIRST_DELAY = 0.02
_MOST_DELAY = 0.1
_TUNNEL_DELAY = 0.3
_GROWTH = 1.25
_FIRST_LOOK = 0.15
_MOST_LOOK = 2.0
_BLIND_RELAY_S = 1.0
_PROBE_TIMEOUT = 5.0
_TAIL = 4096
PYTHONS = ("python3", "python")
_NO_PROGRAM = (126, 127)


class NoPython(Exception):
    """The image has no Python for the relay."""


def is_socket(path: str) -> bool:
    """Whether there is a unix socket, and not a link to somewhere else."""
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return False


class Reach:
    """The way to the server of one container."""

    def __init__(self, engine: Engine, container: str, about: About, tunnel_path: str = "") -> None:
        self.about = about
        self._engine = engine
        self._container = container
        self._tunnel_path = tunnel_path
        self._tunnel: Tunnel | None = None
        self._relay: str | None = None
        self._pin = -1
        self._relay_pythons = list(PYTHONS)

    async def close(self) -> None:
        """Close what listens on this side."""
        if self._tunnel is not None:
            await self._tunnel.close()
        pin, self._pin = self._pin, -1
        if pin >= 0:
            os.close(pin)

    def remove_folder(self) -> None:
        """Remove the folder of a tunnel that an attached sandbox has for itself."""
        if self._tunnel_path:
            shutil.rmtree(os.path.dirname(self._tunnel_path), ignore_errors=True)  # noqa: PTH120

    def pinned(self, endpoint: Endpoint) -> Endpoint:
        """The same socket by a path that what runs in the container cannot lead elsewhere.

        The shared folder is writable from there: a link put in the socket's place could lead this process to any
        socket of this machine, such as the engine's own.
        """
        if self.about.way != "socket" or endpoint.uds is None:
            return endpoint
        if self._pin < 0:
            self._pin = os.open(endpoint.uds, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
            if not stat.S_ISSOCK(os.fstat(self._pin).st_mode):
                raise OSError(errno.ENOTSOCK, os.strerror(errno.ENOTSOCK), endpoint.uds)
        return Endpoint(url=endpoint.url, uds=f"/proc/{os.getpid()}/fd/{self._pin}")

    async def endpoint(self, found: dict[str, Any]) -> Endpoint | None:
        """Where the server can be asked now; `None` when nothing is there yet."""
        if self.about.way == "socket":
            for name in ("s", "r") if self.about.uds else ("r",):
                path = f"{self.about.folder}/{name}"
                if is_socket(path):
                    return Endpoint(url="http://localhost", uds=path)
            return None
        if self.about.way == "tunnel":
            if self._tunnel is None:
                python = await self._python()
                tunnel = Tunnel(self._engine, self._container, self._tunnel_path, self.about.port, python)
                await tunnel.open()
                self._tunnel = tunnel
            return Endpoint(url="http://localhost", uds=self._tunnel.path)
        bindings = part(found, "NetworkSettings", "Ports").get(f"{self.about.port}/tcp")
        for binding in cast("list[dict[str, str]]", bindings or []):
            return Endpoint(url=f"http://127.0.0.1:{binding['HostPort']}")
        return None

    async def _python(self) -> str:
        for python in PYTHONS:
            try:
                exec_id = await execs.detached(self._engine, self._container, [python, "-I", "-S", "-c", "pass"])
                running, code = True, None
                while running:
                    await asyncio.sleep(0.02)
                    running, code = await execs.state(self._engine, exec_id)
                if code == 0:
                    return python
            except EngineError as error:
                if error.status not in {400, 500}:
                    raise
        raise NoPython

    async def listening(self) -> list[int] | None:
        """Ports on which somebody listens, by the container's own word."""
        try:
            async with asyncio.timeout(_PROBE_TIMEOUT):
                argv = [await self._python(), "-I", "-S", "-c", ports.SHOW]
                shown = await execs.short(self._engine, self._container, argv)
        except (EngineError, TimeoutError):
            return None
        return ports.listed(shown) if shown is not None else None

    async def lead_in(self, pid: int, age: float) -> None:
        """Start the relay from the shared folder to the server's port, once it listens there.

        Raises:
            NoPython: the image has none.
        """
        if self._relay is not None:
            running, code = await execs.state(self._engine, self._relay)
            if not running and code in _NO_PROGRAM:
                self._relay = None
                self._relay_pythons.pop(0)
            elif running or code is None:
                return
            else:  # it ended: the server may not have listened yet
                self._relay = None
        if not self._relay_pythons:
            raise NoPython
        open_ports = await asyncio.to_thread(ports.listening, pid, self._container)
        if open_ports is not None and self.about.port not in open_ports:
            return
        if open_ports is None and age < _BLIND_RELAY_S:
            return
        argv = relay_argv(self._relay_pythons[0], "serve", f"{SHARED}/r", str(self.about.port))
        try:
            self._relay = await execs.detached(self._engine, self._container, argv)
        except EngineError as error:
            if error.status not in {400, 500} or "executable file not found" not in error.message:
                raise
            self._relay_pythons.pop(0)


async def wait_ready(engine: Engine, container: str, reach: Reach, spec: SandboxSpec) -> Endpoint:
    """The endpoint of the server, as soon as it answers.

    Raises:
        SandboxNotReady: it ended, or did not answer in time; SandboxGone: the container was removed;
        SandboxUnsupported: it listens on another port; NoPython: the image needs one and has none.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    deadline = began + spec.startup_timeout
    tunnel = reach.about.way == "tunnel"
    delay, look, look_at = (_TUNNEL_DELAY if tunnel else _FIRST_DELAY), _FIRST_LOOK, began + _FIRST_LOOK
    found: dict[str, Any] = {}
    status: int | None = None
    try:
        if reach.about.way == "port":
            look_at = began
        while True:
            if loop.time() >= look_at:
                found = await _look(engine, container, spec)
                look = min(look * 1.5, _MOST_LOOK)
                look_at = loop.time() + look
                if reach.about.way == "socket" and await reach.endpoint(found) is None:
                    await reach.lead_in(int(found["State"].get("Pid") or 0), loop.time() - began)
            try:
                endpoint = await reach.endpoint(found) if found or reach.about.way == "socket" else None
            except EngineError as error:
                if error.status != 409 or loop.time() >= deadline:
                    raise
                endpoint, look_at = None, loop.time()  # it ended at that very moment: look how
            if endpoint is not None:
                status = await _ask(endpoint, spec.health)
                if status is not None and status < 500:
                    with contextlib.suppress(OSError):  # it was replaced at that moment: look again
                        return reach.pinned(endpoint)
            if loop.time() >= deadline:
                raise await _late(engine, container, reach, spec, found, status)
            await asyncio.sleep(max(0.0, min(delay, deadline - loop.time())))
            delay = min(delay * _GROWTH, 1.0 if tunnel else _MOST_DELAY)
    except EngineError as error:
        raise to_error(error, f"{spec.label}: waiting for its server", container) from error


async def _ask(endpoint: Endpoint, path: str) -> int | None:
    address = endpoint.uds or ("127.0.0.1", int(endpoint.url.rpartition(":")[2]))
    return await http_status(address, path, timeout=_PROBE_TIMEOUT)


async def _look(engine: Engine, container: str, spec: SandboxSpec) -> dict[str, Any]:
    """The running container.

    Raises:
        SandboxNotReady: its server ended; SandboxGone: it was removed.
    """
    found = await containers.inspect(engine, container)
    if found is None:
        raise SandboxGone(
            f"{spec.label}: its container was removed from outside before the server answered",
            provider=NAME,
            sandbox_id=container,
        )
    code = containers.exit_code(found)
    if code is None:
        return found
    tail = await containers.logs(engine, container, _TAIL)
    why = f" ({killed})" if (killed := containers.killed(found)) else ""
    raise SandboxNotReady(
        f"{spec.label}: the server ended with exit code {code}{why} before it answered; "
        f"its output: {tail.strip() or '(none)'}",
        exit_code=code,
        log_tail=tail,
        retryable=False,
        provider=NAME,
        sandbox_id=container,
    )


async def _late(
    engine: Engine, container: str, reach: Reach, spec: SandboxSpec, found: dict[str, Any], status: int | None
) -> SandboxError:
    tail = await containers.logs(engine, container, _TAIL)
    pid = int(part(found, "State").get("Pid") or 0)
    others = await asyncio.to_thread(ports.listening, pid, container)
    if others is None and reach.about.way == "tunnel":
        others = await reach.listening()
    if others and reach.about.port not in others and status is None:
        listed = ", ".join(map(str, others))
        return SandboxUnsupported(
            f"{spec.label}: the server listens on port {listed} and ignores MCP_PORT={reach.about.port}; make it read "
            "MCP_PORT (or AGENTENV_UDS), EXPOSE its port in its Dockerfile, or write [docker] port in agentenv.toml",
            provider=NAME,
            sandbox_id=container,
        )
    answer = f"it answers {spec.health} with HTTP {status}" if status is not None else "it does not answer"
    return SandboxNotReady(
        f"{spec.label}: the server is not ready after {spec.startup_timeout:g} s: {answer}; "
        f"its output: {tail.strip() or '(none)'}",
        log_tail=tail,
        provider=NAME,
        sandbox_id=container,
    )
