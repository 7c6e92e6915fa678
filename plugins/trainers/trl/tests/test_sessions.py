"""OpenEnv's resource sessions, driven by OpenEnv's own harness with a scripted model."""

from __future__ import annotations

import asyncio
import pickle
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.errors import EpisodeFailed, UsageError
from agent_env.testing.small import WORD, serve_in_process, small_bundle
from agent_env.training.trl import BundleSessionFactory

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.interop,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]
harness: Any = pytest.importorskip("openenv.core.harness", reason="openenv is in the dependency group interop")
llm: Any = pytest.importorskip("openenv.core.llm_client")


def drive(folder: Path, script: Any, **options: Any) -> Any:
    async def main() -> Any:
        async with serve_in_process(small_bundle(folder / "small"), **options) as served:
            factory = BundleSessionFactory(served.url, tool_timeout=5, reset_timeout=10)
            result = await asyncio.to_thread(script, factory)
            await served.quiet()
            return result

    return asyncio.run(main())


def rollout(session: Any, *replies: tuple[str, str | None]) -> Any:
    """Play scripted replies, each a text and perhaps a tool, through the white-box harness."""
    left = list(replies)

    def step(messages: Any, tools: Any, sampling: Any) -> Any:
        del messages, tools, sampling
        text, tool = left.pop(0)
        arguments = {"response": text} if tool == "end_turn" else {}
        calls = [llm.ToolCall(id="c1", name=tool, args=arguments)] if tool else []
        return harness.ModelStepResult(response=llm.LLMResponse(content=text, tool_calls=calls))

    return harness.MCPHarnessAdapter().run_white_box(step, session, harness.HarnessRunLimits(max_turns=len(replies)))


def test_the_harness_plays_an_episode(tmp_path: Path) -> None:
    def script(factory: BundleSessionFactory) -> Any:
        copy = pickle.loads(pickle.dumps(factory))
        ends: list[Any] = []
        for replies in ([("", "look"), (WORD, None)], [(WORD, "end_turn")], [("no idea", None)], [(WORD, "look")]):
            session = copy.create(0, seed=3, episode_id="e1")
            assert isinstance(session, harness.ResourceSession)
            assert [tool.name for tool in session.list_tools()] == ["look", "die", "end_turn"]
            assert session.initial_messages() == [{"role": "user", "content": "Which word is in room find-0?"}]
            played = rollout(session, *replies)
            verified = session.verify(played.messages)
            ends.append([verified.env_reward, verified.done, verified.metrics["tool_calls"]])
            session.close()
            session.close()
        return ends

    assert drive(tmp_path, script) == [[1.0, True, 1], [1.0, True, 0], [0.0, True, 0], [1.0, True, 1]]


def test_a_failed_env_is_unscored(tmp_path: Path) -> None:
    def script(factory: BundleSessionFactory) -> Any:
        session = factory.create({"split": "train", "index": 1})
        died = session.call_tool("die", {})
        verified = session.verify([])
        session.close()
        return died.done, died.error, verified.env_reward, verified.metrics["failure"]

    done, error, reward, failure = drive(tmp_path, script)
    assert (done, error, reward) == (True, "the episode failed", None)
    assert failure.startswith("env: ")


def test_a_session_that_is_closed_early_leaves_nothing(tmp_path: Path) -> None:
    def script(factory: BundleSessionFactory) -> Any:
        session = factory.create(0)
        session.call_tool("look", {})
        session.close()
        return session.verify([]).env_reward, session.call_tool("look", {}).done

    assert drive(tmp_path, script) == (None, True)


def test_a_prompt_and_its_group_choose_the_task(tmp_path: Path) -> None:
    def script(factory: BundleSessionFactory) -> Any:
        chosen: list[str] = []
        own = [{"role": "user", "content": "Which word is in room find-1?"}]
        for task, seed in ((own, 4), (own, 5), ("Which word is in room find-0?", 1), ("Another?", 0), ("Another?", 1)):
            session = factory.create(task, seed=seed)
            chosen.append(session._episode.target.index)
            session.close()
        return chosen

    assert drive(tmp_path, script) == [1, 1, 0, 0, 1]


def test_what_names_no_task_is_an_error(tmp_path: Path) -> None:
    def script(factory: BundleSessionFactory) -> None:
        with pytest.raises(UsageError, match="float"):
            factory.create(1.5)
        with pytest.raises(EpisodeFailed, match="17"):
            factory.create(17)
        with pytest.raises(UsageError, match="AGENTENV_NO_SUCH"):
            BundleSessionFactory(factory.url, token_var="AGENTENV_NO_SUCH").create(0)

    drive(tmp_path, script)
