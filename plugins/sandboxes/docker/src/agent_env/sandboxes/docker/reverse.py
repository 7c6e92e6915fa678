"""The server's side of code that asks envs over loopback URLs from where these lead nowhere.

The code's own connection through the engine also carries the connections that the code makes: see `mux`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from agent_env.sandboxes.docker.mux import CREDIT, DATA, EOF, OPEN, RESET, RESULT, Mux, MuxError, number

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_PIECE = 65536
_WAIT = 10.0


def origins(urls: Iterable[str]) -> list[str]:
    """The URLs without their paths, each once."""
    return list(dict.fromkeys(f"http://{urlsplit(url).netloc}" for url in urls))


async def carry(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, ways: Sequence[str], most_result: int
) -> bytes:
    """Connect what comes to the ``ways`` (origins) until the result is there.

    Raises:
        OSError: the other side hung up or does not keep to the rules.
    """
    session = _Session(writer, ways, most_result)
    try:
        while data := await reader.read(_PIECE):
            result = session.feed(data)
            if result is not None:
                return result
        raise OSError("it hung up")
    except MuxError as error:
        raise OSError(f"what it sends makes no sense: {error}") from error
    finally:
        await session.close()


class _Stream:
    """A connection of the code, on its way to a server here."""

    def __init__(self) -> None:
        self.came: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.room = asyncio.Event()
        self.room.set()
        self.task: asyncio.Task[None] | None = None


class _Session:
    def __init__(self, writer: asyncio.StreamWriter, ways: Sequence[str], most_result: int) -> None:
        self._writer = writer
        self._ways = ways
        self._mux = Mux(most_result)
        self._streams: dict[int, _Stream] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """End every connection."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(set(self._tasks))

    def feed(self, data: bytes) -> bytes | None:
        """Deal with what came; the result when it is there."""
        for kind, number_of, content in self._mux.feed(data):
            if kind == RESULT:
                return content
            if kind == OPEN:
                self._open(number_of, number(content))
                continue
            stream = self._streams.pop(number_of, None) if kind == RESET else self._streams.get(number_of)
            if stream is None:
                continue
            if kind == DATA:
                stream.came.put_nowait(content)
            elif kind == EOF:
                stream.came.put_nowait(None)
            elif kind == CREDIT:
                stream.room.set()
            elif kind == RESET and stream.task is not None:
                stream.task.cancel()
        self._flush()
        return None

    def _flush(self) -> None:
        if not self._writer.is_closing():
            self._writer.write(self._mux.take())

    def _open(self, number_of: int, way: int) -> None:
        if way >= len(self._ways):
            raise MuxError(f"way {way}")
        stream = self._streams[number_of] = _Stream()
        task = stream.task = asyncio.create_task(self._serve(number_of, stream, self._ways[way]), name="docker way")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, number_of: int, stream: _Stream, way: str) -> None:
        writer: asyncio.StreamWriter | None = None
        try:
            to = urlsplit(way)
            async with asyncio.timeout(_WAIT):
                reader, writer = await asyncio.open_connection(to.hostname, to.port or 80)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._up(number_of, stream, reader))
                both.create_task(self._down(number_of, stream, writer))
            writer.close()
            async with asyncio.timeout(_WAIT):
                await writer.wait_closed()
        except* (OSError, TimeoutError):
            pass
        finally:
            self._streams.pop(number_of, None)
            self._mux.reset(number_of)
            self._flush()
            if writer is not None:
                writer.transport.abort()

    async def _up(self, number_of: int, stream: _Stream, reader: asyncio.StreamReader) -> None:
        """What the server says, to the code."""
        while True:
            while not (room := self._mux.room(number_of)):
                stream.room.clear()
                await stream.room.wait()
            data = await reader.read(min(room, _PIECE))
            if not data:
                break
            self._mux.write(number_of, data)
            self._flush()
            await self._writer.drain()
        self._mux.write_eof(number_of)
        self._flush()

    async def _down(self, number_of: int, stream: _Stream, writer: asyncio.StreamWriter) -> None:
        """What the code says, to the server."""
        while (data := await stream.came.get()) is not None:
            writer.write(data)
            await writer.drain()
            self._mux.taken(number_of, len(data))
            self._flush()
        if writer.can_write_eof():
            writer.write_eof()
