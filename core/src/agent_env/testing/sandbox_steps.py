"""Cancelling a coroutine at a chosen await."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator

T = TypeVar("T")


class StopAt(Generic[T]):
    """Awaits a coroutine and cancels it where it waits for the time number ``step``, counted from 0."""

    def __init__(self, work: Coroutine[Any, Any, T], step: int) -> None:
        self._work = work
        self._step = step

    def __await__(self) -> Generator[Any, Any, T]:
        waits = 0
        inner = self._work.__await__()
        try:
            waiting = next(inner)
            while True:
                if waits == self._step:
                    waiting = inner.throw(asyncio.CancelledError())
                waits += 1
                yield waiting
                waiting = inner.send(None)
        except StopIteration as stop:
            value: T = stop.value
            return value
