"""Pacing of creates: an account's rate and concurrency, shared by all processes of this user on this machine.

::

    pace = Pace("e2b", rate=1.0, burst=1, concurrency=8)
    async with pace.slot():  # waits in line; give the wait a deadline with asyncio.timeout
        ...
    await pace.hold(retry_after)  # the service said: not before; holds for the other processes too
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import random
import struct
import tempfile
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

_FORMAT = struct.Struct("d")
_POLL_S = 0.05
_MOST_AHEAD_S = 3600.0
"""A file that says more than this is from before a restart of the machine."""


class Pace:
    """A leaky bucket and a number of slots, kept in files that processes lock; a process that dies lets go.

    Args:
        key: what is paced, such as the provider's name and a digest of the account; never a secret itself.
        rate: turns a second, or `None` for no limit.
        burst: turns that may follow each other at once after a pause.
        concurrency: slots that may be held at the same time, or `None` for no limit.
        folder: where the files are; default a folder of the user in the temp directory.
    """

    def __init__(
        self,
        key: str,
        *,
        rate: float | None,
        burst: int = 1,
        concurrency: int | None = None,
        folder: Path | None = None,
    ) -> None:
        self._interval = 1.0 / rate if rate else 0.0
        self._burst = max(1, burst)
        self._concurrency = concurrency
        self._folder = folder or Path(tempfile.gettempdir()) / f"agentenv-pace-{os.getuid()}"
        self._name = "".join(char if char.isalnum() or char in "-_." else "_" for char in key)
        # First come, first served within this process; between processes whoever finds a free slot.
        self._inside: asyncio.Semaphore | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @asynccontextmanager
    async def slot(self) -> AsyncGenerator[None]:
        """A slot, from the turn's time on."""
        if self._concurrency is None:
            await self.turn()
            yield
            return
        async with self._semaphore(self._concurrency):
            held = await self._take(self._concurrency)
            try:
                await self.turn()
                yield
            finally:
                os.close(held)

    async def turn(self) -> None:
        """Wait for the next turn of the rate."""
        wait = await asyncio.to_thread(self._next, 1.0)
        if wait > 0:
            await asyncio.sleep(wait)

    async def hold(self, seconds: float) -> None:
        """No turn before this many seconds are over."""
        await asyncio.to_thread(self._hold, min(max(seconds, 0.0), _MOST_AHEAD_S))

    def _semaphore(self, count: int) -> asyncio.Semaphore:
        loop = asyncio.get_running_loop()
        if self._inside is None or self._loop is not loop:
            self._inside, self._loop = asyncio.Semaphore(count), loop
        return self._inside

    async def _take(self, count: int) -> int:
        while True:
            held = await asyncio.to_thread(self._try_slots, count)
            if held is not None:
                return held
            await asyncio.sleep(_POLL_S * (0.5 + random.random()))  # noqa: S311

    # -- files; run off the event loop --------------------------------------------------------------------------------

    def _open(self, suffix: str) -> int:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(self._folder / f"{self._name}.{suffix}", flags, 0o600)

    def _try_slots(self, count: int) -> int | None:
        for number in range(count):
            fd = self._open(f"slot{number}")
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(fd)
            except BaseException:
                os.close(fd)
                raise
            else:
                return fd
        return None

    def _next(self, turns: float) -> float:
        """Take turns; seconds until the first of them."""
        fd = self._open("rate")
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            now = time.monotonic()
            free = self._read(fd, now)
            # `free` lies behind `now` by at most the burst: what was saved up during a pause.
            at = max(free, now - (self._burst - 1) * self._interval)
            os.pwrite(fd, _FORMAT.pack(at + turns * self._interval), 0)
            return at - now
        finally:
            os.close(fd)

    def _hold(self, seconds: float) -> None:
        fd = self._open("rate")
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            now = time.monotonic()
            os.pwrite(fd, _FORMAT.pack(max(self._read(fd, now), now + seconds)), 0)
        finally:
            os.close(fd)

    @staticmethod
    def _read(fd: int, now: float) -> float:
        data = os.pread(fd, _FORMAT.size, 0)
        free = _FORMAT.unpack(data)[0] if len(data) == _FORMAT.size else 0.0
        return float(free) if free <= now + _MOST_AHEAD_S else 0.0
