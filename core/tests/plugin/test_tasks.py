"""Owned background work."""

from __future__ import annotations

import asyncio

from agent_env.plugin.sandboxing.tasks import Tasks


def test_it_waits_for_what_was_started_meanwhile_and_swallows_errors() -> None:
    async def run() -> None:
        tasks = Tasks()
        done: list[str] = []

        async def second() -> None:
            await asyncio.sleep(0)
            done.append("second")

        async def first() -> None:
            tasks.start(second(), "second")
            done.append("first")
            raise RuntimeError("logged, not raised")

        tasks.start(first(), "first")
        assert await tasks.wait(5) == 0
        assert done == ["first", "second"]

    asyncio.run(run())


def test_what_does_not_end_in_time_is_cancelled_and_counted() -> None:
    async def run() -> None:
        tasks = Tasks()
        hung = tasks.start(asyncio.sleep(3600), "hung")
        assert await tasks.wait(0.01) == 1
        assert hung.cancelled()
        assert await tasks.wait(0.01) == 0

    asyncio.run(run())
