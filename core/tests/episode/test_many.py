"""Many episodes at once, and what an idle one holds."""

from __future__ import annotations

import asyncio
import gc
import threading
import tracemalloc
from typing import Any

from agent_env.episode import Outcome

Build = Any
MOST = 64 * 1024
"""Bytes that an open idle episode may hold."""


def test_a_thousand_episodes_at_once(bundle: Build, steps: Any, in_process: Any) -> None:
    bundle.env().task(steps.deploy, steps.ask, steps.reply)

    async def play() -> None:
        async with in_process(bundle) as it:

            async def one(number: int) -> Outcome:
                episode = it.episode()
                await episode.start()
                assert (await episode.call_tool("echo", {"text": str(number)})).text == str(number)
                outcome = await episode.end_turn("hello" if number % 2 else "no")
                assert isinstance(outcome, Outcome)
                return outcome

            outcomes = await asyncio.gather(*map(one, range(1000)))
            assert [outcome.reward for outcome in outcomes] == [0.0, 1.0] * 500

    asyncio.run(play())


def test_an_idle_episode_holds_little_and_no_thread(bundle: Build, steps: Any, in_process: Any) -> None:
    bundle.env().task(steps.deploy, steps.ask, steps.reply)

    async def play() -> None:
        async with in_process(bundle) as it:
            await it.episode().start()
            threads = set(threading.enumerate())
            gc.collect()
            tracemalloc.start()
            episodes = [it.episode() for _ in range(50)]
            for episode in episodes:
                await episode.start()
            gc.collect()
            held = tracemalloc.get_traced_memory()[0] / len(episodes)
            tracemalloc.stop()
            assert held < MOST / 2  # the other half is for the connections of a real env
            assert set(threading.enumerate()) <= threads  # those of earlier tests may end meanwhile

    asyncio.run(play())
