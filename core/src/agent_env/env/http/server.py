"""An HTTP/1.1 server on asyncio: one protocol object for each connection, requests answered in their order."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import TYPE_CHECKING, Any, cast

from agent_env.env.http.requests import MAX_BODY, Request, RequestParser
from agent_env.env.http.responses import Response, text_response, write_head
from agent_env.env.http.wire import ProtocolError

if TYPE_CHECKING:
    import socket

Handler = Callable[[Request], "Response | Coroutine[Any, Any, Response]"]
"""Answers a request at once, or with a coroutine where it has to wait."""

_READ_TIMEOUT = 60.0
_IDLE_TIMEOUT = 600.0
_LINGER = 2.0


class HttpServer:
    """Serves a handler on listening sockets.

    Args:
        handler: called once for each request; an exception of it is answered 500 and written to stderr.
        max_body: most bytes of a request's body.
        read_timeout: seconds for a begun request to arrive further.
        idle_timeout: seconds that a connection may be unused.
    """

    def __init__(
        self,
        handler: Handler,
        *,
        max_body: int = MAX_BODY,
        read_timeout: float = _READ_TIMEOUT,
        idle_timeout: float = _IDLE_TIMEOUT,
    ) -> None:
        self.handler = handler
        self.max_body = max_body
        self.read_timeout = read_timeout
        self.idle_timeout = idle_timeout
        self.closing = False
        self.connections: set[Connection] = set()
        self._servers: list[asyncio.Server] = []

    async def listen(self, sock: socket.socket, *, backlog: int = 512) -> None:
        """Accept on a bound socket; it belongs to the server from now on."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Connection(self, loop), sock=sock, backlog=backlog)
        self._servers.append(server)

    async def close(self, grace: float = 5.0) -> None:
        """Accept no more, let running requests end within ``grace`` seconds, close every connection."""
        self.closing = True
        for server in self._servers:
            server.close()
        for connection in list(self.connections):
            connection.finish()
        if self.connections and grace > 0:
            await asyncio.wait([connection.closed for connection in list(self.connections)], timeout=grace)
        rest = list(self.connections)
        for connection in rest:
            connection.abort()
        if rest:
            await asyncio.wait([connection.closed for connection in rest], timeout=1.0)
        for server in self._servers:
            await server.wait_closed()


class Connection(asyncio.Protocol):
    """One client."""

    def __init__(self, server: HttpServer, loop: asyncio.AbstractEventLoop) -> None:
        self._server = server
        self._loop = loop
        self._parser = RequestParser(server.max_body)
        self._transport: asyncio.Transport = cast("asyncio.Transport", None)
        self._task: asyncio.Task[None] | None = None
        self._writable: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._last_read = loop.time()
        self._eof = False
        self._done = False
        self._streaming = False
        self.closed: asyncio.Future[None] = loop.create_future()

    # -- what asyncio calls --

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._server.connections.add(self)
        self._timer = self._loop.call_later(self._server.read_timeout, self._check_time)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._done = True
        self._server.connections.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        if self._writable is not None and not self._writable.done():
            self._writable.set_exception(ConnectionResetError("the client went away"))
        if self._streaming and self._task is not None:
            self._task.cancel()  # nobody reads any more; a plain call goes on to its end
        if not self.closed.done():
            self.closed.set_result(None)

    def data_received(self, data: bytes) -> None:
        if self._done:
            return  # lingering: what still comes is dropped
        self._last_read = self._loop.time()
        self._parser.feed(data)
        if self._task is None:
            self._advance()
        else:
            self._transport.pause_reading()  # pipelined: read on when this answer is out

    def eof_received(self) -> bool:
        self._eof = True
        if self._task is None or self._streaming:  # who closes during a stream has left: nothing else would say so
            self._transport.close()
            return False
        return True  # half closed: the client still reads its answers

    def pause_writing(self) -> None:
        self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None

    # -- requests, one after the other --

    def _advance(self) -> None:
        """Answer every request that is there; a coroutine goes on in a task that calls this again."""
        while not self._done:
            try:
                request = self._parser.next_request()
            except ProtocolError as error:
                self._refuse(text_response(error.status, str(error)))
                return
            if request is None:
                if self._parser.take_continue():
                    self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                if self._eof:
                    self._transport.close()
                elif not self._transport.is_reading():
                    self._transport.resume_reading()
                return
            try:
                answer = self._server.handler(request)
            except Exception as error:  # noqa: BLE001 - one request's defect must not end the process
                answer = _broken(error)
            if isinstance(answer, Response) and isinstance(answer.body, bytes) and self._writable is None:
                self._write(request, answer)
            else:
                self._task = self._loop.create_task(self._answer(request, answer))
                return

    async def _answer(self, request: Request, answer: Response | Coroutine[Any, Any, Response]) -> None:
        try:
            if not isinstance(answer, Response):
                try:
                    answer = await answer
                except Exception as error:  # noqa: BLE001 - as above
                    answer = _broken(error)
            if self._writable is not None:
                await self._writable
            if isinstance(answer.body, bytes):
                self._write(request, answer)
            else:
                await self._stream(request, answer, answer.body)
        except ConnectionError:
            self.abort()
        finally:
            self._task = None
            self._last_read = self._loop.time()
        self._advance()

    def _write(self, request: Request, answer: Response) -> None:
        if self._done or not isinstance(answer.body, bytes):
            return
        keep = request.keep_alive and not self._server.closing
        head = write_head(answer, keep_alive=keep, chunked=False)
        self._transport.write(head if request.method == "HEAD" else head + answer.body)
        if not keep:
            self._done = True
            self._transport.close()

    async def _stream(self, request: Request, answer: Response, pieces: AsyncIterator[bytes]) -> None:
        """Write pieces as they come, in chunks."""
        keep = request.keep_alive and not self._server.closing
        self._transport.write(write_head(answer, keep_alive=keep, chunked=True))
        self._streaming = True
        try:
            if request.method != "HEAD":
                async for piece in pieces:
                    if self._done:
                        return
                    if piece:
                        self._transport.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                    if self._writable is not None:
                        await self._writable
                self._transport.write(b"0\r\n\r\n")
        except ConnectionError:
            raise
        except Exception as error:  # noqa: BLE001 - the head is out: only a cut body can still say so
            _broken(error)
            self.abort()
            return
        finally:
            self._streaming = False
            close = getattr(pieces, "aclose", None)
            if close is not None:
                await close()
        if not keep:
            self._done = True
            self._transport.close()

    def _refuse(self, answer: Response) -> None:
        """Answer what cannot be read and close, leaving the client time to read the answer."""
        self._done = True
        body = answer.body if isinstance(answer.body, bytes) else b""
        self._transport.write(write_head(answer, keep_alive=False, chunked=False) + body)
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._transport.resume_reading()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(_LINGER, self.abort)

    # -- time and end --

    def _check_time(self) -> None:
        """One timer for each connection: cheaper than one for each request."""
        if self._done:
            return
        begun = not self._parser.idle
        limit = self._server.read_timeout if begun else self._server.idle_timeout
        left = self._last_read + limit - self._loop.time()
        if self._task is None and left <= 0:
            if begun:
                self._refuse(text_response(408, "the request did not arrive in time"))
            else:
                self._transport.close()
            return
        self._timer = self._loop.call_later(min(max(left, 1.0), self._server.read_timeout), self._check_time)

    def finish(self) -> None:
        """Close now, or after the answer that is under way."""
        if self._task is None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        if self._task is not None:
            self._task.cancel()
        if self._transport is not None:  # pyright: ignore[reportUnnecessaryComparison]
            self._transport.abort()


def _broken(error: Exception) -> Response:
    traceback.print_exception(error)
    return text_response(500, "internal error, see the server's log")
