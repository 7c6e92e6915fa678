"""Cancelling work at a chosen await."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator

T = TypeVar("T")


def cancelled_at(work: Coroutine[Any, Any, T], step: int) -> asyncio.Task[T]:
    """A task that is cancelled while it waits for the time number ``step``, counted from 0."""
    return asyncio.ensure_future(_run(_Stepping(work, step)))


async def _run(stepping: _Stepping[T]) -> T:
    return await stepping


class _Stepping(Generic[T]):
    def __init__(self, work: Coroutine[Any, Any, T], step: int) -> None:
        self._work = work
        self._step = step

    def __await__(self) -> Generator[Any, Any, T]:
        waits = 0
        inner = self._work.__await__()
        try:
            waiting = next(inner)
            while True:
                task = asyncio.current_task()
                if waits == self._step and task is not None:
                    asyncio.get_running_loop().call_soon(task.cancel)
                waits += 1
                try:
                    sent = yield waiting
                except BaseException as error:  # noqa: BLE001 - the cancellation, for the work to see
                    waiting = inner.throw(error)
                else:
                    waiting = inner.send(sent)
        except StopIteration as stop:
            value: T = stop.value
            return value
