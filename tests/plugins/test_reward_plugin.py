"""A stranger's reward plugin: copied out of the repository, installed, listed, and used by name."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Environment

ROOT = Path(__file__).resolve().parents[2]

REFUSED = """
import sys
from agent_env.errors import RewardError
from agent_env.openenv import build_app

try:
    build_app(sys.argv[1], reward="brisk:no_such_step")
except RewardError as error:
    print(error)
"""

PLAYED = """
import asyncio, json, socket, sys
import uvicorn
from agent_env.openenv import build_app
from agent_env.openenv.client import Session

async def play(url):
    async with Session(url) as session:
        await session.reset(split="eval", index=0)
        reply = await session.call_tool("submit_schedule", {"plan": [0] * 24})
        assert reply.failure is None and not reply.result.is_error, reply
        turn = await session.end_turn("done")
    print(json.dumps({"scores": turn.scores, "reward": turn.reward, "failure": str(turn.failure)}))

async def main():
    listener = socket.create_server(("127.0.0.1", 0))
    app = build_app(sys.argv[1], reward="brisk:grade")
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        await asyncio.wait_for(play(f"http://127.0.0.1:{listener.getsockname()[1]}"), 60)
    finally:
        server.should_exit = True
        await serving

asyncio.run(main())
"""

COMBINE = """
from agent_env.plugin.reward import EpisodeFacts
from agent_env.registry import default_registry

brisk = default_registry().load("reward", "brisk")("grade")
print(brisk.combine({"grade": 0.8}, EpisodeFacts("t", tool_calls=10)))
"""


@pytest.fixture(scope="module")
def installed(everything: Environment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environment]:
    folder = tmp_path_factory.mktemp("stranger") / "acme"
    shutil.copytree(ROOT / "examples" / "reward-plugin", folder)
    everything.install("--no-deps", folder)
    yield everything
    everything.uninstall("acme-reward")


def test_it_is_listed(installed: Environment) -> None:
    rows = json.loads(installed.run("agentenv", "plugins", "list", "--json"))
    assert [row for row in rows if row["distribution"] == "acme-reward"] == [
        {
            "kind": "reward",
            "name": "brisk",
            "summary": "A step's score, halved for every ten tool calls: brisk:grade",
            "distribution": "acme-reward",
            "version": "1.0",
            "entry_point": "acme",
            "status": "ok",
            "reason": "",
            "home_page": "https://example.com/acme-reward",
        }
    ]


def test_it_makes_rewards(installed: Environment) -> None:
    assert float(installed.run("python", "-c", COMBINE)) == pytest.approx(0.4)


def test_a_bundle_is_served_and_played_with_it(installed: Environment) -> None:
    played = json.loads(installed.run("python", "-c", PLAYED, ROOT / "examples" / "gridsim").splitlines()[-1])
    assert played["scores"] == {"grade": pytest.approx(0.2)}
    assert played["reward"] == pytest.approx(0.2 * 0.5**0.1)


def test_a_step_that_no_task_has_is_refused_before_serving(installed: Environment) -> None:
    said = installed.run("python", "-c", REFUSED, ROOT / "examples" / "gridsim")
    assert "no scoring step is called 'no_such_step'; the task's scoring steps: 'grade'" in said
