"""Tools are listed once for each toolset, and an env that fails now and then does not stop them from being known."""

from __future__ import annotations

import json

import pytest
from agent_env.errors import AgentEnvError, Failure, ServerError
from agent_env.plugin.trainer import RowSettings
from agent_env.rollout.rows.toolsets import Toolsets
from agent_env.testing.standin.episodes import FakeEpisodes

pytestmark = pytest.mark.anyio
TASK = {"id": "day/train-0", "index": 0, "toolset": "grid"}
BROKEN = Failure("env", "env 'grid': no lamp to be had")
SEEDED = Failure("env", "the task has the placeholder <seed>: give a seed")


def toolsets(episodes: FakeEpisodes, reset_timeout: float = 5) -> Toolsets:
    settings = RowSettings(reset_timeout=reset_timeout, tool_timeout=5)
    return Toolsets("http://bundle.example", None, settings, connect=episodes.connect)


def episodes(*resets: Failure | Exception | None) -> FakeEpisodes:
    return FakeEpisodes({"draw": lambda: "drawn"}, resets=resets)


async def test_a_toolset_is_listed_once() -> None:
    fake = episodes()
    known = toolsets(fake)
    first = await known.tools("train", TASK)
    assert [tool["function"]["name"] for tool in json.loads(first)] == ["draw", "end_turn"]
    assert await known.tools("train", {**TASK, "id": "day/train-1", "index": 1}) == first
    assert len(fake.sessions) == 1
    assert fake.open_sessions == 0


@pytest.mark.parametrize("kind", ["env", "tool_timeout"])
async def test_an_env_that_fails_twice_is_asked_again(kind: str) -> None:
    failure = Failure(kind, "env 'grid': broken")  # type: ignore[arg-type]
    fake = episodes(failure, failure)
    assert '"draw"' in await toolsets(fake).tools("train", TASK)
    assert len(fake.sessions) == 3
    assert fake.open_sessions == 0


async def test_a_seeded_task_that_fails_is_asked_again_with_its_seed() -> None:
    fake = episodes(SEEDED, BROKEN)
    assert '"draw"' in await toolsets(fake).tools("train", TASK)
    assert [session.task for session in fake.sessions] == [("train", 0, None), ("train", 0, 0), ("train", 0, 0)]


async def test_an_env_that_always_fails_is_said_with_its_task() -> None:
    fake = episodes(*[BROKEN] * 9)
    with pytest.raises(AgentEnvError, match=r"tools of task 'day/train-0' could not be listed: env: .*no lamp"):
        await toolsets(fake).tools("train", TASK)
    assert len(fake.sessions) == 3
    assert fake.open_sessions == 0


@pytest.mark.parametrize(
    "outcome",
    [Failure("server", "no such split"), Failure("deploy", "no such split"), ServerError("no such split")],
)
async def test_what_the_server_or_a_sandbox_provider_refuses_is_not_asked_again(outcome: Failure | Exception) -> None:
    fake = episodes(*[outcome] * 9)
    with pytest.raises(AgentEnvError, match=r"tools of task 'day/train-0' could not be listed: .*no such split"):
        await toolsets(fake).tools("train", TASK)
    assert len(fake.sessions) == 1


async def test_all_attempts_together_have_the_time_of_one_reset() -> None:
    passing = Failure("env", "env 'grid': broken", retryable=True)
    fake = episodes(*[passing] * 99)
    with pytest.raises(AgentEnvError, match=r"could not be listed: env: .*broken"):
        await toolsets(fake, reset_timeout=1).tools("train", TASK)
    assert all(session.wait <= 1 for session in fake.sessions), "the later ones got what was left, not a second more"
