"""Pacing of creates: an account's rate and concurrency, shared by all processes of this user on this machine.

::

    pace = Pace("e2b", rate=1.0, burst=1, concurrency=8)
    async with pace.slot():  # waits in line; give the wait a deadline with asyncio.timeout
        ...
    await pace.hold(retry_after)  # the service said: not before; holds for the other processes too

A hold also puts off turns that were given out before it. How long one is: `agent_env.plugin.sandboxing.patience`.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import functools
import hashlib
import os
import random
import struct
import tempfile
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from agent_env.plugin.sandboxing import lease

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

_FORMAT = struct.Struct("dd8s")
"""When the next turn is free, when a hold ends (both monotonic), and since which start of the machine that counts."""
_POLL_S = 0.05
_MOST_HOLD_S = 3600.0
_UNUSED_S = 7 * 86400.0


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
        """Wait for the next turn of the rate; one that a hold overtakes is taken anew behind it."""
        wait = await asyncio.to_thread(self._next)
        while wait > 0:
            await asyncio.sleep(wait)
            wait = await asyncio.to_thread(self._next) if await self.held() > 0 else 0.0

    async def hold(self, seconds: float) -> None:
        """No turn before this many seconds are over, an hour at the most."""
        await asyncio.to_thread(self._hold, min(max(seconds, 0.0), _MOST_HOLD_S))

    async def held(self) -> float:
        """Seconds for which turns are on hold."""
        return await asyncio.to_thread(self._held)

    def _semaphore(self, count: int) -> asyncio.Semaphore:
        loop = asyncio.get_running_loop()
        if self._inside is None or self._loop is not loop:
            self._inside, self._loop = asyncio.Semaphore(count), loop
        return self._inside

    async def _take(self, count: int) -> int:
        while True:
            trying = asyncio.ensure_future(asyncio.to_thread(self._try_slots, count))
            try:
                held = await asyncio.shield(trying)
            except asyncio.CancelledError:
                trying.add_done_callback(_let_go)  # a thread cannot be cancelled: it may have got one
                raise
            if held is not None:
                return held
            await asyncio.sleep(_POLL_S * (0.5 + random.random()))  # noqa: S311

    # -- files; run off the event loop --------------------------------------------------------------------------------

    def _open(self, suffix: str) -> int:
        if not self._folder.is_dir():
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _tidy(self._folder)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(self._folder / f"{self._name}.{suffix}", flags, 0o600)

    def _locked(self, suffix: str, how: int) -> int:
        """A file, locked.

        Raises:
            BlockingIOError: with ``LOCK_NB``, another has it.
        """
        while True:
            fd = self._open(suffix)
            try:
                fcntl.flock(fd, how)
                if os.fstat(fd).st_nlink:  # else it was tidied away meanwhile
                    return fd
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)

    def _try_slots(self, count: int) -> int | None:
        for number in range(count):
            with contextlib.suppress(BlockingIOError):
                return self._locked(f"slot{number}", fcntl.LOCK_EX | fcntl.LOCK_NB)
        return None

    def _next(self) -> float:
        """Take a turn; seconds until it comes."""
        fd = self._locked("rate", fcntl.LOCK_EX)
        try:
            now = time.monotonic()
            free, held = _read(fd)
            # `free` lies behind `now` by at most the burst: what was saved up during a pause.
            at = max(free, held, now - (self._burst - 1) * self._interval)
            _write(fd, at + self._interval, held)
            return at - now
        finally:
            os.close(fd)

    def _hold(self, seconds: float) -> None:
        fd = self._locked("rate", fcntl.LOCK_EX)
        try:
            free, held = _read(fd)
            _write(fd, free, max(held, time.monotonic() + seconds))
        finally:
            os.close(fd)

    def _held(self) -> float:
        fd = self._locked("rate", fcntl.LOCK_SH)
        try:
            return max(0.0, _read(fd)[1] - time.monotonic())
        finally:
            os.close(fd)


def _let_go(trying: asyncio.Future[int | None]) -> None:
    if not trying.cancelled() and trying.exception() is None and (held := trying.result()) is not None:
        os.close(held)


@functools.cache
def _since() -> bytes:
    """Which start of the machine it is: with another one the monotonic clock begins anew."""
    return hashlib.sha256(lease.machine()["boot"].encode()).digest()[:8]


def _read(fd: int) -> tuple[float, float]:
    """When the next turn is free, and when a hold ends."""
    data = os.pread(fd, _FORMAT.size, 0)
    free, held, since = _FORMAT.unpack(data) if len(data) == _FORMAT.size else (0.0, 0.0, b"")
    return (free, held) if since == _since() else (0.0, 0.0)


def _write(fd: int, free: float, held: float) -> None:
    os.pwrite(fd, _FORMAT.pack(free, held, _since()), 0)


@functools.cache
def _tidy(folder: Path) -> None:
    """Remove what nobody has used for long, once for each process."""
    now = time.time()
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            if path.stat().st_mtime > now - _UNUSED_S:
                continue
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
            finally:
                os.close(fd)
