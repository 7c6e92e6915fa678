"""Passes requests on to an endpoint that needs secret headers or TLS."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from agent_env.env.http.replies import Reply
from agent_env.env.http.responses import Response, text_response
from agent_env.env.http.server import HttpServer
from agent_env.env.transport import Outgoing, TransportError, TransportTimeout, open_transport

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator

    from agent_env.env.http.requests import Request
    from agent_env.plugin.sandbox import Endpoint

_TIMEOUT = 3600.0
_HOP_BY_HOP = {
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "content-length",
    "host",
    "expect",
    "accept-encoding",
    "date",
}


class HttpRelay:
    """An HTTP server that passes every request on; event streams come piece by piece."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._transport = open_transport(endpoint)
        self._server = HttpServer(self._handle)
        self._streams: set[asyncio.Task[Reply]] = set()

    async def listen(self, sock: socket.socket) -> None:
        """Accept on a bound socket, which then belongs to this object."""
        await self._server.listen(sock)

    async def close(self) -> None:
        """Close everything."""
        await self._server.close(grace=0)
        for task in self._streams:
            task.cancel()
        if self._streams:
            await asyncio.wait(self._streams)
        await self._transport.close()

    async def _handle(self, request: Request) -> Response:
        target = request.target
        if not target.startswith("/"):
            return text_response(400, "the request's target must be a path")
        pieces = _Pieces()
        headers = {name: value for name, value in request.headers.items() if name not in _HOP_BY_HOP}
        outgoing = Outgoing(request.method, target, {**headers, **self._endpoint.headers}, request.body, sink=pieces)
        task = asyncio.get_running_loop().create_task(self._transport.request(outgoing, timeout=_TIMEOUT))
        self._streams.add(task)
        task.add_done_callback(self._streams.discard)
        first = asyncio.get_running_loop().create_task(pieces.begun.wait())
        try:
            await asyncio.wait([task, first], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            task.cancel()
            raise
        finally:
            first.cancel()
        if not task.done():
            head = pieces.head or Reply(200)
            return Response(head.status, pieces.stream(task), "text/event-stream", self._headers(head))
        try:
            reply = task.result()
        except TransportTimeout as error:
            return text_response(504, f"the env did not answer: {error}")
        except TransportError as error:
            return text_response(502, f"the env did not answer: {error}")
        return _passed_on(reply, pieces, self._headers(reply))

    def _headers(self, reply: Reply) -> dict[str, str]:
        return _headers(reply, urlsplit(self._endpoint.url).hostname or "")


class _Pieces:
    """An event stream between its reader and its writer."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.head: Reply | None = None
        self.left: list[bytes] = []
        self._more = asyncio.Event()

    def begin(self, reply: Reply) -> None:
        self.head = reply
        self.begun.set()

    def take(self, piece: bytes) -> bool:
        self.left.append(piece)
        self._more.set()
        return False

    async def stream(self, task: asyncio.Task[Reply]) -> AsyncIterator[bytes]:
        """The pieces until the reply ends."""
        task.add_done_callback(lambda _: self._more.set())
        try:
            while True:
                await self._more.wait()
                self._more.clear()
                ended = task.done()
                while self.left:
                    yield self.left.pop(0)
                if ended:
                    break
            task.result()
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, TransportError):
                await task


def _passed_on(reply: Reply, pieces: _Pieces, headers: dict[str, str]) -> Response:
    body = b"".join(pieces.left) or reply.body
    return Response(reply.status, body, reply.headers.get("content-type"), headers)


def _headers(reply: Reply, host: str) -> dict[str, str]:
    headers = {name: value for name, value in reply.headers.items() if name not in _HOP_BY_HOP}
    headers.pop("content-type", None)
    there = urlsplit(headers.get("location", ""))
    if there.hostname == host:  # a redirect within the env stays behind the relay
        headers["location"] = there.path + (f"?{there.query}" if there.query else "")
    return headers
