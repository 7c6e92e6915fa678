"""Waiting for a server: its unix socket or its TCP port answers the health path, or it ended."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from agent_env.errors import SandboxGone, SandboxNotReady, SandboxUnsupported
from agent_env.plugin.sandbox import Endpoint
from agent_env.sandboxes.process.keeper.procs import descendants
from agent_env.sandboxes.process.keeper.ringlog import read_tail
from agent_env.sandboxes.process.ports import listening, socket_inodes
from agent_env.sandboxes.process.probe import http_status

if TYPE_CHECKING:
    from agent_env.plugin.sandbox import SandboxSpec
    from agent_env.sandboxes.process.link import Held
    from agent_env.sandboxes.process.planning import Plan

_FIRST_DELAY = 0.02
_MOST_DELAY = 0.1
_GROWTH = 1.25
_PROBE_TIMEOUT = 5.0
_TAIL = 4096


async def wait_ready(spec: SandboxSpec, plan: Plan, held: Held, folder: Path) -> Endpoint:
    """The endpoint of the server, as soon as it answers.

    Raises:
        SandboxNotReady: it ended, or did not answer in time; SandboxUnsupported: it listens on another port.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + spec.startup_timeout
    uds = str(folder / "sock" / "s")
    delay = _FIRST_DELAY
    status: int | None = None
    while True:
        await asyncio.wait([held.exited], timeout=max(0.0, min(delay, deadline - loop.time())))
        if held.exited.done():
            raise await _ended(spec, held, folder)
        if Path(uds).is_socket():
            status = await http_status(uds, spec.health, timeout=_PROBE_TIMEOUT)
            if status is not None and status < 500:
                return Endpoint(url="http://localhost", uds=uds)
        elif plan.launch.port:
            status = await http_status(("127.0.0.1", plan.launch.port), spec.health, timeout=_PROBE_TIMEOUT)
            if status is not None and status < 500 and await asyncio.to_thread(_is_ours, held.pid, plan.launch.port):
                return Endpoint(url=f"http://127.0.0.1:{plan.launch.port}")
        if loop.time() >= deadline:
            raise await _late(spec, plan, held, folder, status)
        delay = min(delay * _GROWTH, _MOST_DELAY)


def _is_ours(pid: int, port: int) -> bool:
    """Whether the listener of the port is the sandbox's: another program may have been faster."""
    inodes = listening().get(port)
    return not inodes or bool(inodes & socket_inodes([pid, *descendants(pid)]))


async def _ended(spec: SandboxSpec, held: Held, folder: Path) -> SandboxGone:
    code = held.exited.result()
    tail = await asyncio.to_thread(read_tail, str(folder / "log"), _TAIL)
    how = f"with exit code {code}" if code is not None else f"({held.error})"
    return SandboxNotReady(
        f"{spec.label}: the server ended {how} before it answered; its output: {tail.strip() or '(none)'}",
        exit_code=code,
        log_tail=tail,
        retryable=held.lost or held.expired,
        provider="process",
        sandbox_id=held.id,
    )


async def _late(
    spec: SandboxSpec, plan: Plan, held: Held, folder: Path, status: int | None
) -> SandboxNotReady | SandboxUnsupported:
    tail = await asyncio.to_thread(read_tail, str(folder / "log"), _TAIL)
    others = await asyncio.to_thread(_other_ports, held.pid, plan.launch.port)
    if others:
        listed = ", ".join(map(str, others))
        return SandboxUnsupported(
            f"{spec.label}: the server listens on port {listed} and ignores MCP_PORT={plan.launch.port}; "
            "make it read MCP_PORT (or AGENTENV_UDS), or name its port in [process] port of its agentenv.toml and "
            "let bubblewrap give each env a network of its own",
            provider="process",
            sandbox_id=held.id,
        )
    answer = f"it answers {spec.health} with HTTP {status}" if status is not None else "it does not answer"
    return SandboxNotReady(
        f"{spec.label}: the server is not ready after {spec.startup_timeout:g} s: {answer}; "
        f"its output: {tail.strip() or '(none)'}",
        log_tail=tail,
        provider="process",
        sandbox_id=held.id,
    )


def _other_ports(pid: int, port: int) -> list[int]:
    held = socket_inodes([pid, *descendants(pid)])
    return sorted(other for other, inodes in listening(pid).items() if other != port and inodes & held)
