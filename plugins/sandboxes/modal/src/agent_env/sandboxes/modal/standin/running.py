"""A command in a sandbox: its output by offset, its input, its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

_LIMIT = 1 << 16
_POLL_S = 0.02


class Output:
    """What was written, for readers that start at any offset."""

    def __init__(self) -> None:
        self.data = bytearray()
        self._ended = False
        self._more = asyncio.Event()

    def add(self, piece: bytes) -> None:
        """More was written."""
        self.data += piece
        self._wake()

    def end(self) -> None:
        """Nothing more comes."""
        self._ended = True
        self._wake()

    def _wake(self) -> None:
        self._more.set()
        self._more = asyncio.Event()

    async def read(self, offset: int) -> AsyncIterator[bytes]:
        """Pieces from ``offset`` on, until nothing more comes."""
        while True:
            while offset < len(self.data):
                piece = bytes(self.data[offset : offset + _LIMIT])
                offset += len(piece)
                yield piece
            if self._ended:
                return
            await self._more.wait()


class Running:
    """A process with pipes."""

    def __init__(self, process: asyncio.subprocess.Process, sink: Callable[[int, bytes], None] | None = None) -> None:
        self.process = process
        self.out = (Output(), Output())
        self.written = 0
        self.closed = False
        self.code: int | None = None
        self.done = asyncio.Event()
        self._sink = sink
        self._tasks = [
            asyncio.ensure_future(self._drain(number, stream))
            for number, stream in enumerate((process.stdout, process.stderr))
            if stream is not None
        ]
        self._tasks.append(asyncio.ensure_future(self._wait()))

    async def _drain(self, number: int, stream: asyncio.StreamReader) -> None:
        while piece := await stream.read(_LIMIT):
            self.out[number].add(piece)
            if self._sink is not None:
                self._sink(number, piece)
        self.out[number].end()

    async def _wait(self) -> None:
        # asyncio's own wait also waits for whoever else holds the pipes open.
        while (code := self.process.returncode) is None:  # noqa: ASYNC110
            await asyncio.sleep(_POLL_S)
        self.code = code if code >= 0 else 128 - code
        self.done.set()

    async def write(self, offset: int, data: bytes, *, eof: bool) -> None:
        """Take input; what was taken before is not taken twice."""
        stdin = self.process.stdin
        fresh = data[max(0, self.written - offset) :]
        self.written += len(fresh)
        if stdin is None or self.closed:
            return
        with contextlib.suppress(OSError):
            if fresh:
                stdin.write(fresh)
                await stdin.drain()
            if eof:
                stdin.close()
        self.closed = self.closed or eof

    def kill(self) -> None:
        """End the process itself."""
        if self.process.returncode is None:  # asyncio's own kill may take the exit status from who waits for it
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, signal.SIGKILL)

    async def close(self) -> None:
        """Let go of it once it is dead; children that hold its output open are dead by then."""
        self.kill()
        if self.process.stdin is not None:
            self.process.stdin.close()
        await asyncio.wait(self._tasks, timeout=10)
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
