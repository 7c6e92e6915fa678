"""HTTP/1.1 over a unix socket or TCP, on asyncio protocols: a request costs a tenth of a general client's."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from agent_env.env.http.replies import ReplyParser
from agent_env.env.http.wire import ProtocolError
from agent_env.env.transport.base import Outgoing, TransportError, TransportTimeout, host_of

if TYPE_CHECKING:
    from agent_env.env.http.replies import Reply

_IDLE = 2.0
"""Seconds that an unused connection is kept: less than any server keeps one, so that a request never meets a
connection which the server is just closing."""

_LINGER = 2.0
"""Seconds that an event stream may go on after it gave its reply."""


class PlainTransport:
    """Connections to one server, opened when needed, one request at a time on each."""

    def __init__(self, url: str, *, uds: str | None = None) -> None:
        self._uds = uds
        self._address = host_of(url)
        # Always with a port: MCP servers that check the host allow "localhost:*", which a bare "localhost" is not.
        host = f"[{self._address[0]}]" if ":" in self._address[0] else self._address[0]
        self._host = f"{host}:{self._address[1]}"
        self._loop = asyncio.get_running_loop()
        self._idle: list[_Connection] = []
        self._all: set[_Connection] = set()
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = False

    async def request(self, outgoing: Outgoing, *, timeout: float) -> Reply:
        """Send a request and read its reply."""
        loop = self._loop
        deadline = loop.time() + timeout
        connection = self._take() or await self._connect(timeout)
        waiter = connection.send(self._written(outgoing), outgoing)
        timer = loop.call_at(deadline, connection.fail, TransportTimeout(f"no whole reply within {timeout:g} s"))
        try:
            return await waiter
        finally:
            timer.cancel()
            if connection.waits:  # the caller was cancelled
                connection.abort()

    async def close(self) -> None:
        """Close all connections."""
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        connections = list(self._all)
        for connection in connections:
            connection.fail(TransportError("the connection was closed by this side"))
        if connections:
            await asyncio.wait([connection.closed for connection in connections], timeout=1.0)

    def _written(self, outgoing: Outgoing) -> bytes:
        lines = [f"{outgoing.method} {outgoing.target} HTTP/1.1", f"host: {self._host}"]
        if outgoing.body or outgoing.method not in ("GET", "HEAD", "DELETE"):
            lines.append(f"content-length: {len(outgoing.body)}")
        lines.extend(f"{name}: {value}" for name, value in outgoing.headers.items())
        head = "\r\n".join(lines)
        if head.count("\r\n") != len(lines) - 1 or " " in outgoing.target:
            raise TransportError(f"the request line or a header of {outgoing.method} {outgoing.target!r} is malformed")
        try:
            return head.encode("latin-1") + b"\r\n\r\n" + outgoing.body
        except UnicodeEncodeError as error:
            raise TransportError(f"a header or the path {outgoing.target!r} is not ASCII") from error

    # -- connections --

    async def _connect(self, timeout: float) -> _Connection:
        if self._closed:
            raise TransportError("the connection is closed")
        where = self._uds or "{}:{}".format(*self._address)
        try:
            async with asyncio.timeout(timeout):
                if self._uds is not None:
                    _, connection = await self._loop.create_unix_connection(lambda: _Connection(self), self._uds)
                else:
                    _, connection = await self._loop.create_connection(lambda: _Connection(self), *self._address)
        except TimeoutError as error:
            raise TransportTimeout(f"no connection to {where} within {timeout:g} s") from error
        except OSError as error:
            raise TransportError(f"no connection to {where}: {error}") from error
        return connection

    def _take(self) -> _Connection | None:
        """The connection that was used last: it is the one most surely alive."""
        now = self._loop.time()
        while self._idle:
            connection = self._idle.pop()
            if now - connection.idle_since < _IDLE:
                return connection
            connection.abort()
        return None

    def made(self, connection: _Connection) -> None:
        """A connection is up."""
        self._all.add(connection)

    def lost(self, connection: _Connection) -> None:
        """A connection is gone."""
        self._all.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)

    def free(self, connection: _Connection) -> None:
        """A connection can take another request."""
        if self._closed:
            connection.abort()
            return
        connection.idle_since = self._loop.time()
        self._idle.append(connection)
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(_IDLE, self._sweep)

    def _sweep(self) -> None:
        """Close what nobody used lately: an idle episode holds no connection."""
        self._sweeper = None
        limit = self._loop.time() - _IDLE + 0.01
        for connection in [idle for idle in self._idle if idle.idle_since <= limit]:
            self._idle.remove(connection)
            connection.abort()
        if self._idle:
            self._sweeper = self._loop.call_at(self._idle[0].idle_since + _IDLE, self._sweep)


class _Connection(asyncio.Protocol):
    """One connection."""

    def __init__(self, pool: PlainTransport) -> None:
        self._pool = pool
        self._transport: asyncio.Transport = cast("asyncio.Transport", None)
        self._parser: ReplyParser | None = None
        self._waiter: asyncio.Future[Reply] | None = None
        self._dead = False
        self.idle_since = 0.0
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def waits(self) -> bool:
        """A reply is still to come."""
        return self._waiter is not None

    def send(self, data: bytes, outgoing: Outgoing) -> asyncio.Future[Reply]:
        """Write a request; the future gives its reply."""
        waiter: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        if self._dead:
            waiter.set_exception(TransportError("the connection ended before the request was sent"))
            return waiter
        self._waiter = waiter
        self._parser = ReplyParser(outgoing.method, outgoing.max_reply, outgoing.sink)
        self._transport.write(data)
        return waiter

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._pool.made(self)

    def data_received(self, data: bytes) -> None:
        parser = self._parser
        if parser is None:
            self.abort()  # nobody asked for anything
            return
        try:
            parser.feed(data)
        except Exception as error:  # noqa: BLE001 - a sink's defect too belongs to the caller, not to the loop
            self.fail(error)
            return
        self._progress(parser)

    def _progress(self, parser: ReplyParser) -> None:
        if parser.reply is not None and (parser.done or parser.satisfied):
            waiter, self._waiter = self._waiter, None
            if waiter is not None and not waiter.done():
                waiter.set_result(parser.reply)
                if not parser.done:
                    asyncio.get_running_loop().call_later(_LINGER, self._give_up, parser)
        if parser.done:
            self._parser = None
            if parser.reusable:
                self._pool.free(self)
            else:
                self.abort()

    def _give_up(self, parser: ReplyParser) -> None:
        """The stream goes on though its reply is there: the connection is of no more use."""
        if self._parser is parser:
            self.abort()

    def eof_received(self) -> None:
        if self._parser is not None:
            try:
                self._parser.end()
            except ProtocolError as error:
                self.fail(error)
                return
            self._progress(self._parser)

    def connection_lost(self, exc: Exception | None) -> None:
        self._dead = True
        self._pool.lost(self)
        if self._waiter is not None:
            text = str(exc) if exc is not None else "the connection ended without a reply"
            self.fail(TransportError(text or type(exc).__name__))
        if not self.closed.done():
            self.closed.set_result(None)

    def fail(self, error: Exception) -> None:
        """Give the request up and close the connection."""
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            if isinstance(error, ProtocolError):
                error = TransportError(str(error))
            waiter.set_exception(error)
        self.abort()

    def abort(self) -> None:
        """Close at once."""
        self._waiter = None
        self._parser = None
        if not self._dead:
            self._dead = True
            self._transport.abort()
