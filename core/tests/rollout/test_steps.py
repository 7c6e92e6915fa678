"""An episode that a trainer plays call by call: each way in which it ends."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest
from agent_env.errors import Failure
from agent_env.rollout.arguments import read_arguments
from agent_env.rollout.opening import Target
from agent_env.rollout.steps import OVER, SteppedEpisode
from agent_env.testing.standin.episodes import FakeEpisodes, FakeReply


async def opened(episodes: FakeEpisodes) -> tuple[SteppedEpisode, Any]:
    session = episodes.connect("http://host", None, 1.0)
    await session.open()
    await session.reset(split="train", index=0)
    return SteppedEpisode(Target("http://host", "train", 0), tool_timeout=0.2, reset_timeout=5), session


async def play(episode: SteppedEpisode, session: Any, name: str, **arguments: Any) -> str:
    return await episode.play_call(session, ["look", "end_turn"], name, read_arguments(arguments))


def test_calls_are_counted_and_the_last_turn_scores() -> None:
    async def main() -> None:
        episodes = FakeEpisodes({"look": lambda: "a door"}, prompts=("One.", "Two."), reward=lambda said: len(said) / 4)
        episode, session = await opened(episodes)
        assert await play(episode, session, "look") == "a door"
        assert "no tool named 'fly'" in await play(episode, session, "fly")
        assert "Two." in await play(episode, session, "end_turn", response="first")
        assert not episode.over
        assert await play(episode, session, "end_turn", response="second") == "The episode is over."
        result = episode.result
        assert (episode.over, result.reward, result.end_reason) == (True, 0.5, "end_turn")
        assert (result.tool_calls, result.unknown_calls) == (1, 1)

    asyncio.run(main())


def test_turns_that_nobody_replied_to_end_with_the_episode() -> None:
    async def main() -> None:
        episode, session = await opened(FakeEpisodes({}, prompts=("One.", "Two.", "Three."), reward=1.0))
        await episode.play_end(session, "done", truncated=True)
        result = episode.result
        assert (result.reward, result.truncated, result.end_reason) == (1.0, True, "length")
        assert session.responses == ["done", "", ""]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("tool", "kind"),
    [
        (lambda: FakeReply(failure=Failure("env", "it died")), "env"),
        (lambda: asyncio.sleep(5), "tool_timeout"),
        (lambda: 1 / 0, "aborted"),
    ],
)
def test_a_failure_ends_it_and_is_no_tools_error(tool: Any, kind: str) -> None:
    async def main() -> None:
        episode, session = await opened(FakeEpisodes({"look": tool}))
        assert await play(episode, session, "look") == OVER
        assert episode.over
        assert episode.result.failure is not None
        assert (episode.result.failure.kind, episode.result.reward) == (kind, None)
        episode.fail(Failure("server", "later"))
        assert episode.result.failure.kind == kind

    asyncio.run(main())


@pytest.mark.parametrize("reward", [None, math.nan, math.inf])
def test_what_is_no_number_is_no_reward(reward: Any) -> None:
    async def main() -> None:
        episode, session = await opened(FakeEpisodes({}, reward=reward))
        await episode.play_end(session, "done", truncated=False)
        assert episode.result.failure is not None
        assert (episode.result.failure.kind, episode.result.reward) == ("no_reward", None)

    asyncio.run(main())


def test_a_cancelled_call_fails_the_episode_and_is_cancelled() -> None:
    async def main() -> None:
        episode, session = await opened(FakeEpisodes({"look": lambda: asyncio.sleep(5)}))
        call = asyncio.create_task(play(episode, session, "look"))
        await asyncio.sleep(0.05)
        call.cancel()
        await asyncio.wait({call})
        assert call.cancelled()
        assert episode.result.failure is not None
        assert episode.result.failure.kind == "aborted"

    asyncio.run(main())
