"""An event loop in a thread of its own, on which the process's episodes are played whoever asks for them."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import threading
import weakref
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from concurrent.futures import Future

T = TypeVar("T")
THREAD: Final = "agentenv-episodes"
"""Name of the thread."""
_STOP_TIMEOUT = 15.0


class Closing(Protocol):
    """Something open; closing it again does nothing."""

    async def close(self) -> None: ...


class Background:
    """A loop that starts with its first use and ends with the process."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self.closing: weakref.WeakSet[Closing] = weakref.WeakSet()
        """What is closed before the loop ends."""
        self._thread = threading.Thread(target=self._run, name=THREAD, daemon=True)
        self._thread.start()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run ``work`` on the loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work`` and wait for it; an interrupt of the waiting thread cancels it."""
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("an episode cannot be waited for on the loop that plays it")
        future = self.submit(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    async def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work`` and await it from another loop; a cancellation of the waiter cancels it."""
        return await asyncio.wrap_future(self.submit(work))

    def stop(self) -> None:
        """Close what is open, end every task and the thread. Idempotent."""
        if self._loop.is_closed() or not self._thread.is_alive():
            return
        with contextlib.suppress(Exception):
            self.submit(self._finish()).result(_STOP_TIMEOUT)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_STOP_TIMEOUT)

    async def _finish(self) -> None:
        async with asyncio.timeout(_STOP_TIMEOUT - 1):
            await asyncio.gather(*(item.close() for item in list(self.closing)), return_exceptions=True)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()


_lock = threading.Lock()
_current: tuple[int, Background] | None = None


def background() -> Background:
    """The process's loop; a forked child gets one of its own."""
    global _current  # noqa: PLW0603
    with _lock:
        if _current is None or _current[0] != os.getpid():
            _current = (os.getpid(), Background())
        return _current[1]


@atexit.register
def stop() -> None:
    """End the process's loop, when there is one; the next use starts another."""
    global _current  # noqa: PLW0603
    with _lock:
        current, _current = _current, None
    if current is not None and current[0] == os.getpid():
        current[1].stop()
