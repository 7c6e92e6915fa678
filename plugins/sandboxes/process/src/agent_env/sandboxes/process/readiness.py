"""Waiting for a server: its unix socket or its TCP port answers the health path, or it ended."""

from __future__ import annotations

import asyncio
import os
import stat
from typing import TYPE_CHECKING, Any

from agent_env.errors import SandboxGone, SandboxNotReady, SandboxUnsupported
from agent_env.plugin.sandbox import Endpoint
from agent_env.plugin.sandboxing.probe import http_status
from agent_env.sandboxes.process.keeper.procs import children, descendants
from agent_env.sandboxes.process.keeper.ringlog import read_tail
from agent_env.sandboxes.process.ports import listening, socket_inodes

if TYPE_CHECKING:
    from pathlib import Path

    from agent_env.plugin.sandbox import SandboxSpec
    from agent_env.sandboxes.process.link import Held, Link
    from agent_env.sandboxes.process.planning import Plan

URL = "http://localhost"
"""Base URL of what listens on a unix socket; the host is only a name."""

_FIRST_DELAY = 0.02
_MOST_DELAY = 0.1
_GROWTH = 1.25
_FIRST_LOOK = 0.1
_PROBE_TIMEOUT = 5.0
_TAIL = 4096
_SIGNALS = 64


async def wait_ready(spec: SandboxSpec, plan: Plan, held: Held, folder: Path, link: Link) -> Endpoint:
    """The endpoint of the server, as soon as it answers.

    Raises:
        SandboxNotReady: it ended, or did not answer in time; SandboxUnsupported: it listens on another port.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + spec.startup_timeout
    uds = str(folder / "sock" / "s")
    relay = _Relay(plan, held, folder, link) if not plan.launch.network else None
    delay = _FIRST_DELAY
    status: int | None = None
    while True:
        await asyncio.wait([held.exited], timeout=max(0.0, min(delay, deadline - loop.time())))
        if held.exited.done():
            raise await _ended(spec, held, folder)
        if is_socket(uds):
            status = await http_status(uds, spec.health, timeout=_PROBE_TIMEOUT)
            if status is not None and status < 500:
                return Endpoint(url=URL, uds=uds)
        elif relay is not None:
            path = relay.path()
            if path is not None:
                status = await http_status(path, spec.health, timeout=_PROBE_TIMEOUT)
                if status is not None and status < 500:
                    return Endpoint(url=URL, uds=path)
        else:
            status = await http_status(("127.0.0.1", plan.launch.port), spec.health, timeout=_PROBE_TIMEOUT)
            if status is not None and status < 500 and await asyncio.to_thread(_is_ours, held.pid, plan.launch.port):
                return Endpoint(url=f"http://127.0.0.1:{plan.launch.port}")
        if loop.time() >= deadline:
            raise await _late(spec, plan, held, folder, status)
        delay = min(delay * _GROWTH, _MOST_DELAY)


async def wait_forked(spec: SandboxSpec, held: Held, folder: Path) -> Endpoint:
    """The endpoint of a forked env, which tells its keeper that it accepts requests.

    Raises:
        SandboxNotReady: it ended, or was not ready in time.
    """
    either: list[asyncio.Future[Any]] = [held.ready, held.exited]
    await asyncio.wait(either, timeout=spec.startup_timeout, return_when=asyncio.FIRST_COMPLETED)
    if held.exited.done():
        raise await _ended(spec, held, folder)
    if not held.ready.done():
        tail = await asyncio.to_thread(read_tail, str(folder / "log"), _TAIL)
        raise SandboxNotReady(
            f"{spec.label}: the server is not ready after {spec.startup_timeout:g} s; "
            f"its output: {tail.strip() or '(none)'}",
            log_tail=tail,
            provider="process",
            sandbox_id=held.id,
        )
    return Endpoint(url=URL, uds=str(folder / "sock" / "s"))


def is_socket(path: str) -> bool:
    """Whether there is a unix socket, and not a link to somewhere else."""
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return False


class _Relay:
    """Asks for a way into the sandbox's own network once its server listens there."""

    def __init__(self, plan: Plan, held: Held, folder: Path, link: Link) -> None:
        self._port = plan.launch.port
        self._held = held
        self._folder = folder
        self._link = link
        self._asked = False
        # The kernel walks its whole socket table for a look: seldom, and not while most servers still start.
        self._pause = _FIRST_LOOK
        self._next_look = asyncio.get_running_loop().time() + self._pause

    def path(self) -> str | None:
        """The unix socket that leads to the server's port; None until it listens."""
        path = str(self._folder / "sock" / "r")
        if not self._asked:
            now = asyncio.get_running_loop().time()
            if now < self._next_look:
                return None
            self._pause *= _GROWTH
            self._next_look = now + self._pause
            inside = children(self._held.pid)
            if not inside or self._port not in listening(inside[0]):
                return None
            self._asked = True
            self._link.post(
                {
                    "op": "relay",
                    "id": f"relay-{self._held.id}",
                    "of": self._held.id,
                    "pid": inside[0],
                    "port": self._port,
                    "path": path,
                }
            )
        return path if is_socket(path) else None


def _is_ours(pid: int, port: int) -> bool:
    """Whether the listener of the port is the sandbox's: another program may have been faster."""
    inodes = listening().get(port)
    return not inodes or bool(inodes & socket_inodes([pid, *descendants(pid)]))


async def _ended(spec: SandboxSpec, held: Held, folder: Path) -> SandboxGone:
    code = held.exited.result()
    tail = await asyncio.to_thread(read_tail, str(folder / "log"), _TAIL)
    how = f"with exit code {code}" if code is not None else f"({held.error})"
    why = held.cell.hint() if held.cell is not None else ""
    if why:
        how += f" ({why})"
    return SandboxNotReady(
        f"{spec.label}: the server ended {how} before it answered; its output: {tail.strip() or '(none)'}",
        exit_code=code,
        log_tail=tail,
        # A limit that was too little will be so again.
        retryable=held.lost or held.expired or (_killed(code) and not why),
        provider="process",
        sandbox_id=held.id,
    )


def _killed(code: int | None) -> bool:
    """Whether a signal ended it, of the kernel out of memory for instance; shells say so with 128 and its number."""
    return code is not None and (code < 0 or 128 < code <= 128 + _SIGNALS)


async def _late(
    spec: SandboxSpec, plan: Plan, held: Held, folder: Path, status: int | None
) -> SandboxNotReady | SandboxUnsupported:
    tail = await asyncio.to_thread(read_tail, str(folder / "log"), _TAIL)
    others = await asyncio.to_thread(_other_ports, held.pid, plan.launch.port)
    if others:
        listed = ", ".join(map(str, others))
        return SandboxUnsupported(
            f"{spec.label}: the server listens on port {listed} and ignores MCP_PORT={plan.launch.port}; "
            "make it read MCP_PORT (or AGENTENV_UDS), or write its port as [process] port in its agentenv.toml, which "
            "works where bubblewrap gives each env a network of its own",
            provider="process",
            sandbox_id=held.id,
        )
    answer = f"it answers {spec.health} with HTTP {status}" if status is not None else "it does not answer"
    if held.cell is not None and (why := held.cell.hint()):
        answer += f" ({why})"
    return SandboxNotReady(
        f"{spec.label}: the server is not ready after {spec.startup_timeout:g} s: {answer}; "
        f"its output: {tail.strip() or '(none)'}",
        log_tail=tail,
        provider="process",
        sandbox_id=held.id,
    )


def _other_ports(pid: int, port: int) -> list[int]:
    below = descendants(pid)
    held = socket_inodes([pid, *below])
    ports = listening(below[0] if below else pid)
    return sorted(other for other, inodes in ports.items() if other != port and inodes & held)
