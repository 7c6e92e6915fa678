"""The way to a sandbox's server, and waiting until it answers."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import httpx
from agent_env.errors import SandboxNotReady
from agent_env.plugin.sandbox import Endpoint
from agent_env.sandboxes.modal.calls import within
from agent_env.sandboxes.modal.failures import NAME, to_error

if TYPE_CHECKING:
    from agent_env.plugin.sandbox import SandboxSpec
    from agent_env.sandboxes.modal.options import ModalOptions
    from agent_env.sandboxes.modal.sandbox import ModalSandbox
    from agent_env.sandboxes.modal.sdk import SdkSandbox

_TUNNEL_TIMEOUT = 50
_FIRST_DELAY = 0.05
_MOST_DELAY = 0.5
_GROWTH = 1.4
_PROBE_TIMEOUT = 10.0
_LOOK_EVERY = 1.0
_FRESH_S = 30.0
_TAIL = 4096
_NOT_YET = (401, 403)
"""What Modal's own proxy answers before it knows a token."""


class Way:
    """Asks Modal for the address of one sandbox's server."""

    def __init__(self, sandbox: SdkSandbox, port: int, options: ModalOptions) -> None:
        self._sandbox = sandbox
        self._port = port
        self._access = options.access
        self._endpoint: Endpoint | None = None
        self._asked_at = 0.0

    async def endpoint(self) -> Endpoint:
        """The address; a token that was given out some time ago is not given out again.

        Raises:
            SandboxError: Modal does not say it.
        """
        if self._endpoint is not None and (self._access == "tunnel" or time.monotonic() < self._asked_at + _FRESH_S):
            return self._endpoint
        try:
            if self._access == "tunnel":
                tunnels = await within(self._sandbox.tunnels.aio(timeout=_TUNNEL_TIMEOUT))
                endpoint = Endpoint(url=str(tunnels[self._port].url).rstrip("/"))
            else:
                known = await within(self._sandbox.create_connect_token.aio(port=self._port))
                headers = {"Authorization": f"Bearer {known.token}"}
                endpoint = Endpoint(url=str(known.url).rstrip("/"), headers=headers)
        except Exception as error:
            raise to_error(error, f"sandbox {self._sandbox.object_id}: address", self._sandbox.object_id) from error
        self._endpoint, self._asked_at = endpoint, time.monotonic()
        return endpoint


class Prober:
    """Asks servers for their health path; one pool of connections for a provider."""

    def __init__(self) -> None:
        self._client: httpx.AsyncClient | None = None
        self._making: asyncio.Lock = asyncio.Lock()

    async def answers(self, endpoint: Endpoint, path: str) -> bool:
        """Whether the server answers."""
        async with self._making:
            if self._client is None:  # the context of TLS takes a while to make
                context = await asyncio.to_thread(httpx.create_ssl_context)
                limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
                self._client = httpx.AsyncClient(verify=context, limits=limits, timeout=_PROBE_TIMEOUT)
        try:
            reply = await self._client.get(endpoint.url + path, headers=dict(endpoint.headers))
        except (httpx.HTTPError, OSError):
            return False
        own = bool(endpoint.headers) and reply.status_code in _NOT_YET
        return reply.status_code < 500 and not own

    async def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()


async def wait_ready(box: ModalSandbox, prober: Prober, spec: SandboxSpec) -> None:
    """Until the server answers.

    Raises:
        SandboxNotReady: it did not within ``spec.startup_timeout``, or ended before.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + spec.startup_timeout
    look_at = loop.time() + _LOOK_EVERY / 2
    delay = _FIRST_DELAY
    try:
        async with asyncio.timeout_at(deadline):
            endpoint = await box.endpoint()
            while not await prober.answers(endpoint, spec.health):
                if loop.time() >= look_at:
                    look_at = loop.time() + _LOOK_EVERY
                    code = await box.exit_code()
                    if code is not None:
                        raise await _not_ready(box, spec, f"its server ended with exit code {code}", code)
                    endpoint = await box.endpoint()
                await asyncio.sleep(delay)
                delay = min(delay * _GROWTH, _MOST_DELAY)
    except TimeoutError as error:
        text = f"its server did not answer {spec.health} within {spec.startup_timeout:g} s"
        raise await _not_ready(box, spec, text, None) from error


async def _not_ready(box: ModalSandbox, spec: SandboxSpec, text: str, code: int | None) -> SandboxNotReady:
    tail = await box.last_words(_TAIL)
    said = f"; its last output: {tail.strip()}" if tail.strip() else ""
    details: dict[str, Any] = {"exit_code": code, "log_tail": tail, "provider": NAME, "sandbox_id": box.id}
    return SandboxNotReady(f"{spec.label}: {text}{said}", **details)
