"""The episode by itself: opened, called tool by tool as over MCP, finished, given up."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, get_args

import pytest
from agent_env.errors import EpisodeFailed, FailureKind
from agent_env.rollout.loop import Settings
from agent_env.rollout.model import Reply
from agent_env.rollout.opening import Target
from agent_env.rollout.steps import OVER
from agent_env.testing.small import serve_in_process, small_bundle
from agent_env.training.verifiers import live
from agent_env.training.verifiers.episode import Episode
from agent_env.training.verifiers.failures import CLASSES

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path


SETTINGS = Settings(tool_timeout=5, reset_timeout=10, model_timeout=10)


@asynccontextmanager
async def opened(tmp_path: Path) -> AsyncGenerator[Episode]:
    async with serve_in_process(small_bundle(tmp_path / "small")) as served:
        episode = Episode(Target(served.url, "train", 0), SETTINGS)
        await episode.open()
        try:
            yield episode
        finally:
            await episode.close()
            await served.quiet()


def test_every_kind_of_failure_has_a_class() -> None:
    assert set(CLASSES) == set(get_args(FailureKind))


def test_calls_and_the_last_reply_are_scored(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path) as episode:
            assert [spec.name for spec in episode.specs] == ["look", "die", "end_turn"]
            assert "xyzzy" in await episode.call("look", {})
            assert "no tool named 'jump'" in await episode.call("jump", {})
            assert not episode.over
            first = await episode.finish("It is xyzzy.")
            assert (first.reward, first.scores, first.tool_calls, first.unknown_calls) == (1.0, {"word": 1.0}, 1, 1)
            assert await episode.finish("plugh") is first
            assert await episode.call("look", {}) == OVER

    asyncio.run(main())


def test_end_turn_ends_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path) as episode:
            await episode.call("end_turn", {"response": "xyzzy"})
            assert episode.over
            assert (await episode.finish("plugh")).reward == 1.0

    asyncio.run(main())


def test_a_dead_env_is_a_failure(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path) as episode:
            assert await episode.call("die", {}) == OVER
            result = await episode.finish("xyzzy")
            assert result.reward is None
            assert result.failure is not None
            assert result.failure.kind == "env"

    asyncio.run(main())


def test_what_a_cancelled_model_left_is_scored(tmp_path: Path) -> None:
    """As verifiers does it at the agent's timeout: it cancels the harness, and scores what there is."""

    asked_again = asyncio.Event()

    async def slow(messages: list[dict[str, Any]], tools: list[dict[str, Any]], /) -> Reply:
        if len(messages) == 1:
            calls = [("look", "{}"), ("look", "{"), ("fly", "{}")]
            named = [{"id": name, "function": {"name": name, "arguments": raw}} for name, raw in calls]
            return Reply({"role": "assistant", "content": "", "tool_calls": named})
        asked_again.set()
        await asyncio.sleep(60)
        raise AssertionError("nobody waits so long")

    async def main() -> None:
        async with opened(tmp_path) as episode:
            talking = asyncio.create_task(episode.converse([{"role": "user", "content": "Well?"}], slow))
            async with asyncio.timeout(30):
                await asked_again.wait()
            talking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await talking
            result = await episode.finish("", truncated=True)
            assert (result.reward, result.failure, result.truncated) == (0.0, None, True)
            assert (result.tool_calls, result.invalid_calls, result.unknown_calls) == (1, 1, 1)

    asyncio.run(main())


def test_an_episode_that_is_given_up_fails(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path) as episode:
            await episode.close()
            assert episode.result.failure is not None
            assert episode.result.failure.kind == "aborted"

    asyncio.run(main())


def test_one_that_cannot_be_got_fails() -> None:
    async def main() -> None:
        episode = Episode(Target("http://127.0.0.1:9", "train", 0), Settings(reset_timeout=0.5))
        with pytest.raises(EpisodeFailed) as caught:
            await episode.open()
        assert caught.value.failure.kind == "server"
        assert caught.value.failure.retryable
        assert episode.over

    asyncio.run(main())


def test_the_end_of_the_rollouts_task_closes_it(tmp_path: Path) -> None:
    """A harness that fails leaves no hook of the task's to run."""

    async def main() -> None:
        async with serve_in_process(small_bundle(tmp_path / "small")) as served:
            closed: list[str] = []

            async def closer() -> None:
                closed.append("tools")

            async def rollout() -> None:
                episode = Episode(Target(served.url, "train", 0), SETTINGS)
                live.add("trace", episode)
                await episode.open()
                live.also("trace", closer)

            await asyncio.create_task(rollout())
            await served.quiet()
            assert closed == ["tools"]
            assert live.get("trace") is None

    asyncio.run(main())
