from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import TYPE_CHECKING

from agent_env.plugin.pacing import Pace

if TYPE_CHECKING:
    from pathlib import Path


async def _turns(pace: Pace, count: int) -> list[float]:
    loop = asyncio.get_running_loop()
    taken: list[float] = []

    async def one() -> None:
        await pace.turn()
        taken.append(loop.time())

    await asyncio.gather(*(one() for _ in range(count)))
    return sorted(taken)


def test_turns_keep_their_distance_also_between_objects(tmp_path: Path) -> None:
    async def go() -> list[float]:
        one, other = (Pace("x", rate=20.0, folder=tmp_path) for _ in range(2))
        first, second = await asyncio.gather(_turns(one, 3), _turns(other, 3))
        return sorted(first + second)

    taken = asyncio.run(go())
    assert taken[-1] - taken[0] >= 5 / 20.0 - 0.01


def test_a_burst_after_a_pause_does_not_wait_and_then_the_rate_holds(tmp_path: Path) -> None:
    pace = Pace("x", rate=2.0, burst=3, folder=tmp_path)
    taken = asyncio.run(_turns(pace, 4))
    assert taken[3] - taken[0] >= 0.4
    assert taken[2] - taken[0] < taken[3] - taken[0]


def test_a_hold_is_for_everybody(tmp_path: Path) -> None:
    async def go() -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()
        await Pace("x", rate=None, folder=tmp_path).hold(0.3)
        await Pace("x", rate=None, folder=tmp_path).turn()
        return loop.time() - began

    assert asyncio.run(go()) >= 0.29


def test_keys_do_not_share(tmp_path: Path) -> None:
    async def go() -> None:
        await Pace("x", rate=None, folder=tmp_path).hold(3000)
        async with asyncio.timeout(60):
            await Pace("y", rate=1.0, folder=tmp_path).turn()

    asyncio.run(go())


def test_no_more_slots_than_allowed(tmp_path: Path) -> None:
    held = most = 0

    async def one(pace: Pace) -> None:
        nonlocal held, most
        async with pace.slot():
            held += 1
            most = max(most, held)
            await asyncio.sleep(0.02)
            held -= 1

    async def go() -> None:
        paces = [Pace("x", rate=None, concurrency=2, folder=tmp_path) for _ in range(3)]
        await asyncio.gather(*(one(pace) for pace in paces for _ in range(3)))

    asyncio.run(go())
    assert most == 2


def test_a_killed_process_lets_go_of_its_slot(tmp_path: Path) -> None:
    code = f"""
import asyncio, pathlib
from agent_env.plugin.pacing import Pace
async def go():
    async with Pace("x", rate=None, concurrency=1, folder=pathlib.Path({str(tmp_path)!r})).slot():
        print("held", flush=True)
        await asyncio.sleep(600)
asyncio.run(go())
"""

    async def take() -> bool:
        try:
            async with asyncio.timeout(0.3), Pace("x", rate=None, concurrency=1, folder=tmp_path).slot():
                return True
        except TimeoutError:
            return False

    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        taken_while_held = asyncio.run(take())
        process.kill()
    assert not taken_while_held
    assert asyncio.run(take())


def test_a_cancelled_wait_takes_no_slot(tmp_path: Path) -> None:
    async def go() -> None:
        pace = Pace("x", rate=None, concurrency=1, folder=tmp_path)

        async def wait() -> None:
            async with pace.slot():
                raise AssertionError("the slot was taken")

        async with pace.slot():
            waiting = asyncio.create_task(wait())
            await asyncio.sleep(0.1)
            waiting.cancel()
            await asyncio.wait([waiting])
            assert waiting.cancelled()
        async with asyncio.timeout(60), pace.slot():
            pass

    asyncio.run(go())
