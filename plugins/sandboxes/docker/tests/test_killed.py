"""What is left when the server is killed: nothing, at once by its guard, and for certain when the next one starts."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.openenv.client import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]

GRIDSIM = Path(__file__).resolve().parents[4] / "examples" / "gridsim"
AGENTENV = str(Path(sys.executable).parent / "agentenv")
IDLE = [0] * 24
MANY = os.environ.get("AGENTENV_TEST_ALL") == "true"
"""The full numbers take minutes; without them the same is played with fewer episodes."""


@pytest.fixture
def serve(tmp_path: Path, new_port: Callable[[], int]) -> Iterator[Callable[..., tuple[subprocess.Popen[bytes], str]]]:
    """Serves GridSim on Docker in a process of its own."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*options: str, envs: int) -> tuple[subprocess.Popen[bytes], str]:
        port = new_port()
        command = [AGENTENV, "serve", str(GRIDSIM), "--port", str(port), "--sandbox", "docker"]
        with (tmp_path / f"log{len(started)}").open("wb") as log:
            process = subprocess.Popen(
                [*command, "--max-concurrent-envs", str(envs), *options], stdout=log, stderr=subprocess.STDOUT
            )
        started.append(process)
        return process, f"http://127.0.0.1:{port}"

    yield start
    for process in started:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(120)


async def answers(url: str) -> None:
    from agent_env.openenv.client import BundleClient

    async with BundleClient(url) as client, asyncio.timeout(120):
        while True:
            try:
                await client.health()
                return
            except Exception:  # noqa: BLE001 - it is still starting
                await asyncio.sleep(0.1)


async def episode(
    url: str, number: int, open_one: asyncio.Event | None = None, go_on: asyncio.Event | None = None
) -> float:
    """One whole episode; with ``open_one`` it says when it is open and then waits for ``go_on``."""
    async with Session(url, wait=800.0) as session:
        await session.reset(split="eval", index=number % 200, timeout=800.0)
        if open_one is not None:
            open_one.set()
            await (go_on or asyncio.Event()).wait()
        for name, arguments in (("read_day", {}), ("submit_schedule", {"plan": IDLE})):
            reply = await session.call_tool(name, arguments, timeout=300.0)
            assert reply.failure is None, reply.failure
        end = await session.end_turn("done", timeout=800.0)
        assert end.failure is None, end.failure
        assert end.reward is not None
        return end.reward


def listed(docker: Callable[..., str]) -> set[str]:
    return set(
        docker("ps", "-aq", "--filter", "label=agentenv=docker", "--filter", "label=agentenv.label.env=gridsim").split()
    )


def ls() -> list[dict[str, Any]]:
    done = subprocess.run(
        [AGENTENV, "sandbox", "ls", "--json", "--sandbox", "docker"], capture_output=True, text=True, check=True
    )
    return [dict(entry) for entry in json.loads(done.stdout)]


def test_many_episodes_at_once(serve: Any, docker: Callable[..., str]) -> None:
    """All open at the same time on one stock engine: no error, the same reward for all, nothing left."""
    episodes = 200 if MANY else 16

    async def play() -> list[float]:
        process, url = serve(envs=episodes)
        await answers(url)
        opened = [asyncio.Event() for _ in range(episodes)]
        go_on = asyncio.Event()
        tasks = [asyncio.create_task(episode(url, number, opened[number], go_on)) for number in range(episodes)]
        while not all(event.is_set() for event in opened):  # noqa: ASYNC110
            assert not any(task.done() for task in tasks), "an episode failed before all were open"
            await asyncio.sleep(0.05)
        assert len(listed(docker)) == episodes
        go_on.set()
        rewards = await asyncio.gather(*tasks)
        process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(process.wait, 120)
        return rewards

    rewards = asyncio.run(play())
    assert rewards == [pytest.approx(0.2)] * episodes
    assert listed(docker) == set()


@pytest.mark.parametrize("guard", ["true", "false"])
def test_the_server_is_killed(guard: str, serve: Any, docker: Callable[..., str]) -> None:
    """SIGKILL with half of the episodes open and half under way: its guard ends all, or the next server does."""
    episodes = 64 if MANY else 6

    async def play() -> None:
        process, url = serve("--sandbox-option", f"guard={guard}", envs=episodes)
        await answers(url)
        opened = [asyncio.Event() for _ in range(episodes)]
        tasks = [asyncio.create_task(episode(url, number, event)) for number, event in enumerate(opened)]
        while sum(event.is_set() for event in opened) < episodes // 2:
            await asyncio.sleep(0.05)
            assert not any(task.done() for task in tasks), "an episode failed before the server was killed"
        assert len(listed(docker)) >= episodes // 2
        process.kill()
        process.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(play())
    if guard == "true":
        deadline = time.monotonic() + 120
        while (left := ls()) and time.monotonic() < deadline:
            time.sleep(0.5)
        assert left == [], "the guard left sandboxes running"
        return
    assert ls(), "without a guard they are still there"
    process, url = serve(envs=episodes)
    asyncio.run(answers(url))
    deadline = time.monotonic() + 120
    while (left := [entry for entry in ls() if entry["owner"] != "alive"]) and time.monotonic() < deadline:
        time.sleep(0.5)
    assert left == [], "the restarted server left its predecessor's sandboxes"
    process.send_signal(signal.SIGTERM)
    process.wait(120)
    assert ls() == []
