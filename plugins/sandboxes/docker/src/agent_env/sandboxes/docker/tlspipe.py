"""A connection with TLS whose one direction can be ended alone, as the end of a command's stdin needs it.

The event loop's own TLS cannot do that: without it a command that reads its stdin to the end would wait for ever.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Callable

_PIECE = 1 << 18


class TlsPipe(asyncio.Protocol):
    """What comes goes to ``data``, its end to ``ended``, each from the event loop."""

    def __init__(
        self, context: ssl.SSLContext, host: str, data: Callable[[bytes], None], ended: Callable[[], None]
    ) -> None:
        self._data = data
        self._ended = ended
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self._transport: asyncio.Transport = cast("asyncio.Transport", None)
        self._shaken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._over = self._no_more = False

    @classmethod
    async def connect(
        cls,
        context: ssl.SSLContext,
        host: str,
        port: int,
        data: Callable[[bytes], None],
        ended: Callable[[], None],
        timeout: float,
    ) -> TlsPipe:
        """Connect and shake hands.

        Raises:
            OSError: nobody is there, the certificates do not fit (`ssl.SSLError`), or it takes too long (TimeoutError).
        """
        async with asyncio.timeout(timeout):
            loop = asyncio.get_running_loop()
            _, pipe = await loop.create_connection(lambda: cls(context, host, data, ended), host, port)
            try:
                await pipe._shaken  # noqa: SLF001
            except BaseException:
                pipe.abort()
                raise
        return pipe

    # -- the protocol -------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._shake()

    def data_received(self, data: bytes) -> None:
        self._incoming.write(data)
        if not self._shaken.done():
            self._shake()
        if self._shaken.done() and not self._over:
            self._read()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._shaken.done():
            self._shaken.set_exception(exc or ConnectionResetError("the connection was closed"))
        self._end()

    def _shake(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._send()
        except ssl.SSLError as error:
            self._send()
            self._shaken.set_exception(error)
            self._over = True
            self._transport.close()
        else:
            self._send()
            self._shaken.set_result(None)

    def _read(self) -> None:
        try:
            while data := self._tls.read(_PIECE):
                self._data(data)
                if self._over:
                    return
            self._end()
        except ssl.SSLWantReadError:
            self._send()
        except ssl.SSLError:
            self._end()

    def _send(self) -> None:
        if self._outgoing.pending and not self._transport.is_closing():
            self._transport.write(self._outgoing.read())

    def _end(self) -> None:
        if not self._over:
            self._over = True
            self._transport.close()
            self._ended()

    # -- what the owner does ------------------------------------------------------------------------------------------

    def is_closing(self) -> bool:
        """Whether nothing comes or goes any more."""
        return self._over or self._transport.is_closing()

    def get_write_buffer_size(self) -> int:
        """Bytes that wait to be sent."""
        return self._transport.get_write_buffer_size()

    def write(self, data: bytes) -> None:
        """Send bytes."""
        view = memoryview(data)
        while view and not self._no_more and not self._over:
            try:
                view = view[self._tls.write(view[:_PIECE]) :]
            except ssl.SSLError:
                self._end()
                return
            self._send()

    def write_eof(self) -> None:
        """Say that nothing more is sent, and read on."""
        if self._no_more or self._over:
            return
        self._no_more = True
        try:
            # Everything that has come was read, so that this tells the other side and waits for it no longer.
            self._tls.unwrap()
        except ssl.SSLWantReadError:
            self._send()
        except ssl.SSLError:
            self._end()
        else:
            self._send()

    def pause_reading(self) -> None:
        """Let the other side wait."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Go on."""
        self._transport.resume_reading()

    def abort(self) -> None:
        """Close it at once, and tell nobody. Idempotent."""
        self._over = True
        if not self._shaken.done():
            self._shaken.cancel()
        if self._transport is not None:  # pyright: ignore[reportUnnecessaryComparison]
            self._transport.abort()
