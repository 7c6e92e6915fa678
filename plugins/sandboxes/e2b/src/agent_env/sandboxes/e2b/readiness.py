"""Starting the server in a sandbox and waiting until it answers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import httpx
from agent_env.errors import SandboxNotReady
from agent_env.sandboxes.e2b import scripts
from agent_env.sandboxes.e2b.execs import shell

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agent_env.plugin.sandbox import Endpoint, SandboxSpec
    from agent_env.sandboxes.e2b.sdk import SdkSandbox
    from agent_env.sandboxes.e2b.service import Service

_TAIL = 4096
_FIRST_DELAY, _GROWTH, _MOST_DELAY = 0.05, 1.5, 1.0
_FIRST_LOOK, _LOOK_EVERY = 0.3, 2.0
_PROBE_TIMEOUT = 10.0


async def start(
    box: SdkSandbox, service: Service, spec: SandboxSpec, argv: Sequence[str], *, cwd: str, env: Mapping[str, str]
) -> None:
    """Start the server.

    Raises:
        SandboxNotReady: it cannot even be started.
    """
    doing = f"{spec.label}: starting its server"
    code, out, error = await shell(box, service, scripts.server(argv, cwd=cwd), doing=doing, env=env)
    if code != 0:
        raise SandboxNotReady(
            f"{doing} failed with exit code {code}: {(error or out).strip()[-1000:]}",
            exit_code=code,
            log_tail=error or out,
            retryable=False,
            provider=service.name,
            sandbox_id=box.sandbox_id,
        )


async def state(box: SdkSandbox, service: Service, tail: int) -> tuple[int | None, str]:
    """The server's exit code, `None` while it runs, and the end of its output."""
    _, out, _ = await shell(box, service, scripts.server_state(tail), doing=f"sandbox {box.sandbox_id}: its output")
    first, _, rest = out.partition("\n")
    return (int(first) if first.strip().isdigit() else None), rest


async def wait_ready(
    box: SdkSandbox, service: Service, spec: SandboxSpec, endpoint: Endpoint, http: httpx.AsyncClient, timeout: float
) -> None:
    """Wait until the server answers its health path.

    Raises:
        SandboxNotReady: it ended, or did not answer in time.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    delay, look_at = _FIRST_DELAY, began + _FIRST_LOOK
    status: int | None = None
    while True:
        status = await _ask(endpoint, spec.health, http)
        if status is not None and status < 500:
            return
        late = loop.time() >= began + timeout
        if late or loop.time() >= look_at:
            code, tail = await state(box, service, _TAIL)
            if code is not None:
                raise _ended(spec, service, box, code, tail)
            if late:
                raise _late(spec, service, box, status, tail, timeout)
            look_at = loop.time() + _LOOK_EVERY
        await asyncio.sleep(delay)
        delay = min(delay * _GROWTH, _MOST_DELAY)


async def _ask(endpoint: Endpoint, path: str, http: httpx.AsyncClient) -> int | None:
    try:
        async with http.stream(
            "GET", endpoint.url + path, headers=dict(endpoint.headers), timeout=_PROBE_TIMEOUT
        ) as answer:
            return answer.status_code
    except httpx.HTTPError:
        return None


def _ended(spec: SandboxSpec, service: Service, box: SdkSandbox, code: int, tail: str) -> SandboxNotReady:
    return SandboxNotReady(
        f"{spec.label}: the server ended with exit code {code} before it answered; "
        f"its output: {tail.strip() or '(none)'}",
        exit_code=code,
        log_tail=tail,
        retryable=False,
        provider=service.name,
        sandbox_id=box.sandbox_id,
    )


def _late(
    spec: SandboxSpec, service: Service, box: SdkSandbox, status: int | None, tail: str, timeout: float
) -> SandboxNotReady:
    answer = f"it answers {spec.health} with HTTP {status}" if status is not None else "it does not answer"
    return SandboxNotReady(
        f"{spec.label}: the server is not ready after {timeout:g} s: {answer}; it must listen on 0.0.0.0 and the port "
        f"MCP_PORT; its output: {tail.strip() or '(none)'}",
        log_tail=tail,
        provider=service.name,
        sandbox_id=box.sandbox_id,
    )
