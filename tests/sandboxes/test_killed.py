"""What is left when a server is killed with open episodes: nothing, once the next server has started.

Docker has a test of its own in its distribution, on a real engine.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.errors import SessionLost
from agent_env.openenv.client import BundleClient, Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.sandboxes.conftest import Place

pytestmark = pytest.mark.timeout(900)

GRIDSIM = str(Path(__file__).resolve().parents[2] / "examples" / "gridsim")
EPISODES = 64 if os.environ.get("AGENTENV_TEST_ALL") == "true" else 8


@pytest.fixture
def serve(
    tmp_path: Path, new_port: Callable[[], int]
) -> Iterator[Callable[[Place], tuple[subprocess.Popen[bytes], str]]]:
    """Serves GridSim on a place in a process of its own."""
    started: list[subprocess.Popen[bytes]] = []

    def start(place: Place) -> tuple[subprocess.Popen[bytes], str]:
        port = new_port()
        program = str(Path(sys.executable).parent / "agentenv")
        command = [program, "serve", GRIDSIM, "--port", str(port), "--max-concurrent-envs", str(EPISODES)]
        with (tmp_path / f"log{len(started)}").open("wb") as log:
            process = subprocess.Popen(
                [*command, *place.arguments], env=place.environment, stdout=log, stderr=subprocess.STDOUT
            )
        started.append(process)
        return process, f"http://127.0.0.1:{port}"

    yield start
    for process in started:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(120)


async def answers(url: str, process: subprocess.Popen[bytes]) -> None:
    async with BundleClient(url) as client, asyncio.timeout(120):
        while process.poll() is None:
            with contextlib.suppress(Exception):
                await client.health()
                return
            await asyncio.sleep(0.1)
    raise AssertionError("the server ended while it started")


async def hold(url: str, number: int, opened: asyncio.Event) -> None:
    """An episode that is under way when the server dies."""
    async with Session(url, wait=600.0) as session:
        await session.reset(split="eval", index=number, timeout=600.0)
        await session.call_tool("read_day", {}, timeout=300.0)
        opened.set()
        await asyncio.Event().wait()


def slow_answers(place: Place, seconds: float) -> None:
    """Creates are done at once and answered so much later; 0 = as usual."""
    faults: Any = place.service.faults
    if place.name == "modal":
        faults.slow_reply_s = seconds
    elif place.name == "daytona":
        faults.slow_create = seconds
    else:
        from agent_env.sandboxes.e2b.testing.faults import Fault

        faults.waiting.clear()
        if seconds:
            faults.add(Fault("create", "slow_after", seconds=seconds, times=1000))


@pytest.mark.parametrize("name", ["e2b", "modal", "daytona"])
def test_killed_between_a_create_and_its_answer(
    name: str, places: Callable[[str], Place], serve: Callable[[Place], tuple[subprocess.Popen[bytes], str]]
) -> None:
    """The caller may try again, and the next server ends what nobody ever heard of."""
    cloud = places(name)

    async def play() -> None:
        process, url = serve(cloud)
        await answers(url, process)
        slow_answers(cloud, 20.0)
        async with Session(url, wait=600.0) as session:
            resetting = asyncio.create_task(session.reset(split="eval", index=0, timeout=600.0))
            while not cloud.running():
                await asyncio.sleep(0.02)
                assert not resetting.done(), resetting.exception()
            process.kill()
            process.wait()
            with pytest.raises(SessionLost) as lost:
                await resetting
            assert lost.value.retryable
        assert len(cloud.running()) == 1, "it was made, and nobody was told"
        slow_answers(cloud, 0.0)
        process, url = serve(cloud)
        await answers(url, process)
        async with asyncio.timeout(60):
            while cloud.running():  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        async with Session(url, wait=600.0) as session:
            await session.reset(split="eval", index=0, timeout=600.0)
        process.send_signal(signal.SIGTERM)
        process.wait(120)

    try:
        asyncio.run(play())
    finally:
        slow_answers(cloud, 0.0)
    assert cloud.running() == []


@pytest.mark.parametrize("name", ["process", "e2b", "aenv", "modal", "daytona"])
def test_a_killed_server_leaves_nothing_once_the_next_one_runs(
    name: str, places: Callable[[str], Place], serve: Callable[[Place], tuple[subprocess.Popen[bytes], str]]
) -> None:
    place = places(name)
    assert place.listed() == []

    async def play() -> None:
        process, url = serve(place)
        await answers(url, process)
        opened = [asyncio.Event() for _ in range(EPISODES)]
        tasks = [asyncio.create_task(hold(url, number, event)) for number, event in enumerate(opened)]
        while sum(event.is_set() for event in opened) < EPISODES // 2:
            await asyncio.sleep(0.05)
            broken = [task for task in tasks if task.done()]
            assert not broken, broken[0].exception()
        assert len(place.running()) >= EPISODES // 2
        process.kill()
        process.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(play())
    process, url = serve(place)
    asyncio.run(answers(url, process))
    left: list[dict[str, Any]] = []
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        left = [entry for entry in place.listed() if entry["owner"] != "alive"]
        if not left:
            break
        time.sleep(0.5)
    assert left == [], "the restarted server left its predecessor's sandboxes"
    process.send_signal(signal.SIGTERM)
    process.wait(120)
    assert place.listed() == []
    assert place.running() == []
