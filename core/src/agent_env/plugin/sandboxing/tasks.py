"""Background work that somebody owns: it is kept, its errors are logged, and the owner waits for it."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

log = logging.getLogger("agent_env.sandboxes")
T = TypeVar("T")


class Tasks:
    """A set of tasks that nobody else has to wait for."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """Run ``work`` to its end, whatever becomes of the caller."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.debug("%s: %s: %s", task.get_name(), type(error).__name__, error)

    async def wait(self, timeout: float) -> int:
        """Wait for all, also those started meanwhile; those that still run after ``timeout`` seconds are cancelled.

        Returns:
            How many were cancelled.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout
        while self._tasks and loop.time() < end:
            await asyncio.wait(set(self._tasks), timeout=end - loop.time())
        left = set(self._tasks)
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)
        return len(left)


def looked_at(task: asyncio.Future[T]) -> asyncio.Future[T]:
    """The same; when all who waited for it were cancelled, its error is not reported as one that nobody asked for."""
    task.add_done_callback(_look)
    return task


def _look(task: asyncio.Future[Any]) -> None:
    if not task.cancelled():
        task.exception()
