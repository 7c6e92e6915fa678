"""The loop in a thread of its own: who waits, who is cancelled, and what is closed at its end."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING

import pytest
from agent_env.rollout.background import THREAD, Background, background, stop

if TYPE_CHECKING:
    from collections.abc import Iterator


def names() -> list[str]:
    return [thread.name for thread in threading.enumerate()]


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    yield
    stop()
    assert THREAD not in names()


class Open:
    """Something to close."""

    def __init__(self) -> None:
        self.closed = 0

    async def close(self) -> None:
        await asyncio.sleep(0)
        self.closed += 1


async def one() -> int:
    await asyncio.sleep(0)
    return 1


def test_there_is_one_loop_until_it_is_stopped() -> None:
    first = background()
    assert background() is first
    assert first.run(one()) == 1
    stop()
    stop()
    assert background() is not first
    assert background().run(one()) == 1


def test_what_is_open_is_closed_at_the_end_and_tasks_are_cancelled() -> None:
    loop, item = Background(), Open()
    loop.closing.add(item)
    ended = threading.Event()

    async def forever() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.set()

    loop.submit(forever())
    loop.run(one())
    loop.stop()
    assert item.closed == 1
    assert ended.is_set()
    loop.stop()
    assert item.closed == 1


def test_the_loop_cannot_wait_for_itself() -> None:
    async def inside() -> None:
        background().run(one())

    with pytest.raises(RuntimeError, match="cannot be waited for"):
        background().run(inside())


def test_a_cancelled_waiter_cancels_the_work() -> None:
    started, ended = threading.Event(), threading.Event()

    async def forever() -> None:
        started.set()
        try:
            await asyncio.sleep(3600)
        finally:
            ended.set()

    async def main() -> None:
        waiter = asyncio.create_task(background().wait(forever()))
        assert await asyncio.to_thread(started.wait, 10)
        waiter.cancel()
        await asyncio.wait({waiter})
        assert waiter.cancelled()
        assert await asyncio.to_thread(ended.wait, 10)

    asyncio.run(main())


def test_another_process_has_another_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    first = background()
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: -1)
        second = background()
        assert second is not first
        assert second.run(one()) == 1
        stop()  # ends the second, which is this process's as far as it knows
    assert first.run(one()) == 1
    first.stop()
