"""HTTP over TLS, for sandboxes of a cloud: one httpx pool for all envs of an event loop.

A TLS context costs tens of milliseconds, so it is made once for each process.
"""

from __future__ import annotations

import asyncio
from functools import cache
from typing import TYPE_CHECKING

import httpx
from agent_env.env.http.replies import Reply
from agent_env.env.transport.base import Outgoing, TransportError, TransportTimeout, host_of

if TYPE_CHECKING:
    import ssl

_clients: dict[asyncio.AbstractEventLoop, tuple[httpx.AsyncClient, int]] = {}


@cache
def _context() -> ssl.SSLContext:
    return httpx.create_ssl_context()


def _hold(loop: asyncio.AbstractEventLoop) -> httpx.AsyncClient:
    """The loop's client, held once more."""
    client, users = _clients.get(loop, (None, 0))
    if client is None:
        client = httpx.AsyncClient(
            verify=_context(),
            timeout=None,  # noqa: S113 - each request has a deadline of its own
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=256, keepalive_expiry=2.0),
            follow_redirects=False,
        )
    _clients[loop] = (client, users + 1)
    return client


async def _release(loop: asyncio.AbstractEventLoop) -> None:
    client, users = _clients[loop]
    if users > 1:
        _clients[loop] = (client, users - 1)
        return
    del _clients[loop]
    await client.aclose()


class TlsTransport:
    """Requests to one https server."""

    def __init__(self, url: str) -> None:
        host_of(url)
        self._origin = "/".join(url.split("/", 3)[:3])
        self._loop = asyncio.get_running_loop()
        self._client: httpx.AsyncClient | None = _hold(self._loop)

    async def request(self, outgoing: Outgoing, *, timeout: float) -> Reply:
        """Send a request and read its reply."""
        client = self._client
        if client is None:
            raise TransportError("the connection is closed")
        try:
            async with asyncio.timeout(timeout):
                return await self._exchange(client, outgoing)
        except TimeoutError as error:
            raise TransportTimeout(f"no whole reply within {timeout:g} s") from error
        except httpx.HTTPError as error:
            raise TransportError(str(error) or type(error).__name__) from error
        except (httpx.InvalidURL, UnicodeEncodeError) as error:
            raise TransportError(f"malformed request: {error}") from error

    async def close(self) -> None:
        """Give the shared client back; the last user closes it."""
        if self._client is not None:
            self._client = None
            await _release(self._loop)

    async def _exchange(self, client: httpx.AsyncClient, outgoing: Outgoing) -> Reply:
        headers = {"accept-encoding": "identity", **outgoing.headers}
        url = self._origin + outgoing.target
        async with client.stream(outgoing.method, url, headers=headers, content=outgoing.body or None) as response:
            reply = Reply(response.status_code, {name.lower(): value for name, value in response.headers.items()})
            sink = outgoing.sink if reply.content_type == "text/event-stream" else None
            if sink is not None:
                sink.begin(reply)
            pieces: list[bytes] = []
            size = 0
            async for piece in response.aiter_raw():
                size += len(piece)
                if size > outgoing.max_reply:
                    raise TransportError(f"the reply is larger than {outgoing.max_reply} bytes")
                if sink is None:
                    pieces.append(piece)
                elif sink.take(piece):
                    return reply
            reply.body = b"".join(pieces)
            return reply
