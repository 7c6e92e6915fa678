"""An http URL on loopback for an env that is elsewhere: verifier code gets one, whatever the env listens on."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Protocol, Self
from urllib.parse import urlsplit

from agent_env.env.relay_bytes import ByteRelay
from agent_env.env.relay_http import HttpRelay
from agent_env.env.transport import host_of
from agent_env.plugin.sandboxing import reach

if TYPE_CHECKING:
    from types import TracebackType

    from agent_env.plugin.sandbox import Endpoint

_LOOPBACK = {"127.0.0.1", "localhost", "::1"}


class _Forwarder(Protocol):
    async def listen(self, sock: socket.socket) -> None: ...

    async def close(self) -> None: ...


class Relay:
    """Listens on 127.0.0.1 while the ``async with`` lasts.

    A unix socket and plain http are forwarded byte by byte; for an endpoint with secret headers, or on https, requests
    are passed on with the headers added. An endpoint that is such a URL already is used as it is.

    Attributes:
        url: base URL without a trailing slash; add an env's ``mcp_path``.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.url = ""
        self._forwarder: _Forwarder | None = None
        self._published = False

    async def open(self) -> None:
        """Start to listen."""
        endpoint = self.endpoint
        host, port = host_of(endpoint.url)
        https = endpoint.uds is None and endpoint.url.startswith("https:")
        if endpoint.uds is None and not endpoint.headers and not https and host in _LOOPBACK:
            self._publish(endpoint.url.rstrip("/"))
            return
        if endpoint.headers or https:
            self._forwarder = HttpRelay(endpoint)
        else:
            self._forwarder = ByteRelay(endpoint.uds if endpoint.uds is not None else (host, port))
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            sock.bind(("127.0.0.1", 0))
            await self._forwarder.listen(sock)
            base = f"http://127.0.0.1:{sock.getsockname()[1]}"
            self._publish(base + urlsplit(endpoint.url).path.rstrip("/"))
        except BaseException:
            sock.close()
            await self.close()
            raise

    def _publish(self, url: str) -> None:
        self.url = url
        self._published = True
        reach.publish(url, self.endpoint)

    async def close(self) -> None:
        """Stop listening and close every connection; idempotent."""
        if self._published:
            self._published = False
            reach.withdraw(self.url)
        forwarder, self._forwarder = self._forwarder, None
        if forwarder is not None:
            await asyncio.shield(forwarder.close())

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.close()
