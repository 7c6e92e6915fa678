from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from agent_env.plugin.sandboxing.pacing import Pace

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


def test_a_hold_puts_off_turns_that_were_given_out_before_it(tmp_path: Path) -> None:
    async def go() -> tuple[float, list[float]]:
        pace = Pace("x", rate=2.0, folder=tmp_path)
        turns = asyncio.create_task(_turns(pace, 4))
        await asyncio.sleep(0.05)  # the first is over; the others wait for times that they were given
        # As another process is told.
        await Pace("x", rate=2.0, folder=tmp_path).hold(0.6)
        return asyncio.get_running_loop().time() + 0.55, await turns

    until, taken = asyncio.run(go())
    late = [at for at in taken if at >= until]
    assert len(late) >= 3
    assert late[-1] - late[0] >= 2 / 2.0 - 0.01, "behind the hold they keep their distance"


def test_a_hold_can_be_asked_for(tmp_path: Path) -> None:
    async def go() -> tuple[float, float]:
        pace = Pace("x", rate=1.0, folder=tmp_path)
        before = await pace.held()
        await pace.hold(50)
        await pace.hold(3)  # the longer one stands
        return before, await Pace("x", rate=1.0, folder=tmp_path).held()

    before, after = asyncio.run(go())
    assert before == 0.0
    assert 3 < after <= 50


def test_a_pace_of_before_a_restart_of_the_machine_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(Pace("x", rate=1.0, folder=tmp_path).hold(3000))
    monkeypatch.setattr("agent_env.plugin.sandboxing.pacing._since", lambda: b"restarts")
    assert asyncio.run(Pace("x", rate=1.0, folder=tmp_path).held()) == 0.0


def test_files_that_nobody_uses_are_removed_and_those_in_use_are_not(tmp_path: Path) -> None:
    old = time.time() - 30 * 86400

    async def go() -> None:
        pace = Pace("used", rate=None, concurrency=1, folder=tmp_path / "pace")
        await Pace("unused", rate=1.0, folder=tmp_path / "pace").turn()
        async with pace.slot():
            for path in (tmp_path / "pace").iterdir():
                os.utime(path, (old, old))
            code = f"""
import asyncio, pathlib
from agent_env.plugin.sandboxing.pacing import Pace
asyncio.run(Pace("x", rate=None, folder=pathlib.Path({str(tmp_path / "pace")!r})).turn())
"""
            done = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
            assert await done.wait() == 0
            assert {path.name for path in (tmp_path / "pace").iterdir()} == {"used.slot0", "x.rate"}
            with pytest.raises(TimeoutError):
                async with (
                    asyncio.timeout(0.3),
                    Pace("used", rate=None, concurrency=1, folder=tmp_path / "pace").slot(),
                ):
                    pass

    asyncio.run(go())


def test_a_wait_for_a_slot_that_is_cancelled_at_any_moment_holds_none(tmp_path: Path) -> None:
    async def go() -> None:
        pace = Pace("x", rate=None, concurrency=2, folder=tmp_path)

        async def wait() -> None:
            async with pace.slot():
                await asyncio.sleep(60)

        for number in range(40):
            waiting = asyncio.create_task(wait())
            await asyncio.sleep(number / 40 * 0.004)
            waiting.cancel()
            await asyncio.wait([waiting])
        async with asyncio.timeout(60), pace.slot(), Pace("x", rate=None, concurrency=2, folder=tmp_path).slot():
            pass

    asyncio.run(go())


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
from agent_env.plugin.sandboxing.pacing import Pace
async def go():
    async with Pace("x", rate=None, concurrency=1, folder=pathlib.Path({str(tmp_path)!r})).slot():
        print("held", flush=True)
        await asyncio.sleep(600)
asyncio.run(go())
"""

    async def take(seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds), Pace("x", rate=None, concurrency=1, folder=tmp_path).slot():
                return True
        except TimeoutError:
            return False

    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        taken_while_held = asyncio.run(take(0.3))
        process.kill()
    assert not taken_while_held
    assert asyncio.run(take(30))


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
