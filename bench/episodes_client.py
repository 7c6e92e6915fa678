"""The client process of `bench/episodes.py`: plays GridSim days through the OpenEnv client, no model in between.

    python bench/episodes_client.py URL SESSIONS EPISODES

Prints one JSON object: wall seconds, seconds of every episode, rewards, failures and its own CPU seconds.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

from agent_env.openenv.client import Session

IDLE = [0] * 24


async def play(url: str, index: int) -> float:
    """One whole episode: read the day, check a plan, submit it, end the turn; returns the reward."""
    async with Session(url, wait=120.0) as session:
        await session.reset(split="eval", index=index, timeout=120.0)
        calls = (("read_day", {}), ("check_schedule", {"plan": IDLE}), ("submit_schedule", {"plan": IDLE}))
        for name, arguments in calls:
            reply = await session.call_tool(name, arguments)
            if reply.failure is not None:
                raise RuntimeError(str(reply.failure))
        end = await session.end_turn("done", timeout=120.0)
        if end.failure is not None or end.reward is None:
            raise RuntimeError(str(end.failure))
        return end.reward


async def drive(url: str, sessions: int, episodes: int) -> dict[str, object]:
    """``episodes`` episodes, ``sessions`` at once."""
    numbers = iter(range(episodes))
    times: list[float] = []
    rewards: list[float] = []
    errors: list[str] = []

    async def worker() -> None:
        for number in numbers:
            began = time.perf_counter()
            try:
                rewards.append(await play(url, number % 200))
            except Exception as error:  # noqa: BLE001 - counted and shown
                errors.append(f"{type(error).__name__}: {error}")
            times.append(time.perf_counter() - began)

    began, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(worker() for _ in range(sessions)))
    return {
        "wall_s": time.perf_counter() - began,
        "client_cpu_s": time.process_time() - cpu,
        "times_s": times,
        "rewards": rewards,
        "errors": errors,
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(drive(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))))
