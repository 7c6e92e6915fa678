"""Forwards the bytes of TCP connections, both ways, with backpressure and half-closing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    import socket

_CONNECT_TIMEOUT = 10.0


class ByteRelay:
    """Accepts connections and forwards each to ``target``: the path of a unix socket, or a host and port."""

    def __init__(self, target: str | tuple[str, int]) -> None:
        self._target = target
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.ends: set[_End] = set()

    async def listen(self, sock: socket.socket) -> None:
        """Accept on a bound socket, which then belongs to this object."""
        self._server = await asyncio.get_running_loop().create_server(
            lambda: _End(self, accepted=True), sock=sock, backlog=128
        )

    async def close(self) -> None:
        """Close everything."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        ends = list(self.ends)
        for end in ends:
            end.abort()
        if ends:
            await asyncio.wait([end.closed for end in ends], timeout=1.0)
        if server is not None:
            await server.wait_closed()

    def connect(self, near: _End) -> None:
        """Open the far end of an accepted connection."""
        task = asyncio.get_running_loop().create_task(self._connect(near))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, near: _End) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT):
                if isinstance(self._target, str):
                    _, far = await loop.create_unix_connection(lambda: _End(self), self._target)
                else:
                    _, far = await loop.create_connection(lambda: _End(self), *self._target)
        except (OSError, TimeoutError):
            near.abort()
            return
        far.join(near)
        near.join(far)


class _End(asyncio.Protocol):
    """One of the two connections of a relayed one."""

    def __init__(self, relay: ByteRelay, *, accepted: bool = False) -> None:
        self._relay = relay
        self._accepted = accepted
        self._transport: asyncio.Transport = cast("asyncio.Transport", None)
        self._other: _End | None = None
        self._early: list[bytes] = []
        self._eof = False
        self._lost = False
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def join(self, other: _End) -> None:
        """Name the other end; what came before goes to it now."""
        self._other = other
        if self._lost:
            other.close()
            return
        for data in self._early:
            other.write(data)
        self._early.clear()
        if self._eof:
            other.write_eof()
        self._transport.resume_reading()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._relay.ends.add(self)
        self._transport.pause_reading()
        if self._accepted:
            self._relay.connect(self)

    def data_received(self, data: bytes) -> None:
        if self._other is None:
            self._early.append(data)
        else:
            self._other.write(data)

    def eof_received(self) -> bool:
        self._eof = True
        if self._other is not None:
            self._other.write_eof()
        return True  # the other direction goes on

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._lost = True
        self._relay.ends.discard(self)
        if not self.closed.done():
            self.closed.set_result(None)
        if self._other is not None:
            self._other.close()

    def pause_writing(self) -> None:
        if self._other is not None:
            self._other.hold(on=True)

    def resume_writing(self) -> None:
        if self._other is not None:
            self._other.hold(on=False)

    # -- what the other end does to this one --

    def write(self, data: bytes) -> None:
        """Send bytes."""
        if not self._lost:
            self._transport.write(data)

    def write_eof(self) -> None:
        """Nothing more comes; when nothing more came from here either, the connection is over."""
        if self._lost:
            return
        if self._eof:
            self._transport.close()
        elif self._transport.can_write_eof():
            self._transport.write_eof()

    def hold(self, *, on: bool) -> None:
        """Read no further while the other end cannot write."""
        if self._lost or self._eof:
            return
        if on:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def close(self) -> None:
        """Close after what is still to be sent."""
        if not self._lost:
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        if not self._lost:
            self._transport.abort()
