"""A connection that the engine turned into the stdin, stdout and stderr of a command."""

from __future__ import annotations

import asyncio
import struct
from typing import TYPE_CHECKING, Any, Protocol

from agent_env.sandboxes.docker.failures import EngineError

if TYPE_CHECKING:
    from collections.abc import Callable

    import aiohttp

_HEADER = struct.Struct(">BxxxL")
STDOUT, STDERR = 1, 2


class Sink(Protocol):
    """What takes the output."""

    def data(self, stream: int, data: bytes) -> None:
        """Bytes of `STDOUT` or `STDERR`."""
        ...

    def end(self) -> None:
        """Nothing more comes. Called once."""
        ...


class Pipe(Protocol):
    """The connection, as far as it is used here."""

    def is_closing(self) -> bool: ...

    def get_write_buffer_size(self) -> int: ...

    def write(self, data: bytes) -> None: ...

    def write_eof(self) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class Frames:
    """Splits the stream into frames as they come, without holding a frame back; fed by the HTTP client's protocol."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._head = b""
        self._left = 0
        self._stream = STDOUT
        self.ended = False

    def feed_data(self, data: bytes, _size: int = 0) -> tuple[bool, bytes]:
        while data:
            if self._left == 0:
                need = _HEADER.size - len(self._head)
                self._head, data = self._head + data[:need], data[need:]
                if len(self._head) == _HEADER.size:
                    self._stream, self._left = _HEADER.unpack(self._head)
                    self._head = b""
                continue
            piece, data = data[: self._left], data[self._left :]
            self._left -= len(piece)
            self._sink.data(self._stream, piece)
        return False, b""

    def feed_eof(self) -> None:
        if not self.ended:
            self.ended = True
            self._sink.end()

    def set_exception(self, exc: type[BaseException] | BaseException, exc_cause: BaseException | None = None) -> None:
        del exc, exc_cause
        self.feed_eof()


class Hijacked:
    """The taken connection."""

    def __init__(self, pipe: Pipe, close: Callable[[], None], frames: Frames) -> None:
        self._transport = pipe
        self._close = close
        self._frames = frames

    @classmethod
    async def take(cls, reply: aiohttp.ClientResponse, sink: Sink) -> Hijacked:
        """Take over the connection of an answered upgrade.

        Raises:
            EngineError: the engine closed it.
        """
        body = await reply.read()
        connection = reply.connection
        if connection is None or connection.protocol is None or connection.transport is None:
            reply.close()
            raise EngineError(reply.status, body.decode(errors="replace").strip() or "the engine closed the connection")
        frames = Frames(sink)
        protocol: Any = connection.protocol
        protocol.set_parser(frames, frames)
        protocol.force_close()
        return cls(connection.transport, reply.close, frames)

    def write(self, data: bytes) -> None:
        """Bytes for stdin."""
        if not self._transport.is_closing():
            self._transport.write(data)

    def write_eof(self) -> None:
        """End stdin."""
        if not self._transport.is_closing():
            self._transport.write_eof()

    def pause(self) -> None:
        """Read no further."""
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read on."""
        if not self._transport.is_closing():
            self._transport.resume_reading()

    async def drain(self, most: int = 1 << 20) -> None:
        """Wait until less than ``most`` bytes wait to be sent."""
        while not self._transport.is_closing() and self._transport.get_write_buffer_size() > most:  # noqa: ASYNC110
            await asyncio.sleep(0.005)

    def close(self) -> None:
        """Close it. Idempotent."""
        self._frames.ended = True
        self._close()
