"""The environment against a real server, without SkyRL: what SkyRL would see, and every way in which it can fail."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.errors import EpisodeFailed, UsageError
from agent_env.plugin.trainer import RowSettings
from agent_env.rollout.background import THREAD, stop
from agent_env.testing.small import WORD, serve_in_process, small_bundle
from agent_env.training.skyrl.adapter import SkyrlAdapter
from agent_env.training.skyrl.textenv import TextEnv, made

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LOOK = '<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>'
DIE = '<tool_call>\n{"name": "die", "arguments": {}}\n</tool_call>'
SETTINGS = RowSettings(tool_timeout=5, reset_timeout=10, model_timeout=10)


def play(tmp_path: Path, work: Callable[[dict[str, Any]], Any], *, settings: RowSettings = SETTINGS) -> Any:
    """Run ``work(row)`` in a thread, as SkyRL steps environments, while the bundle is served."""

    async def main() -> Any:
        bundle = small_bundle(tmp_path / "small")
        async with serve_in_process(bundle) as served, asyncio.timeout(30):
            await SkyrlAdapter().write_rows(served.url, tmp_path / "rows", settings)
            text = (tmp_path / "rows" / "train.jsonl").read_text("utf-8")
            answer = await asyncio.to_thread(work, json.loads(text.splitlines()[0]))
            await served.quiet()
        return answer

    try:
        return asyncio.run(main())
    finally:
        stop()
        assert THREAD not in {thread.name for thread in threading.enumerate()}


def test_an_episode_by_text(tmp_path: Path) -> None:
    def work(row: dict[str, Any]) -> Any:
        env = TextEnv({}, row)
        first, meta = env.init(row["prompt"])
        one = env.step(LOOK)
        two = env.step(f"The word is {WORD}.")
        env.close()
        env.close()
        return first, meta, one, two, env.get_metrics()

    first, meta, one, two, metrics = play(tmp_path, work)
    assert [message["role"] for message in first] == ["system", "user"]
    assert '"name": "look"' in first[0]["content"]
    assert "<tool_call>" in first[0]["content"]
    assert meta == {}
    assert one["observations"] == [
        {"role": "user", "content": f"<tool_response>\non the wall stands the word {WORD}\n</tool_response>"}
    ]
    assert (one["reward"], one["done"]) == (0.0, False)
    assert (two["reward"], two["done"], two["observations"]) == (1.0, True, [])
    assert metrics["score/word"] == 1.0
    assert (metrics["failed"], metrics["turns"], metrics["tool_calls"]) == (0.0, 2, 1)


def test_tools_of_the_chat_template(tmp_path: Path) -> None:
    def work(row: dict[str, Any]) -> Any:
        env = TextEnv({}, row, native_tools=True)
        first, _ = env.init(row["prompt"])
        one = env.step(LOOK + LOOK)
        env.close()
        return row["prompt"], first, one

    prompt, first, one = play(tmp_path, work)
    assert first == prompt
    assert [message["role"] for message in one["observations"]] == ["tool", "tool"]


def test_mistakes_of_the_model_are_answered(tmp_path: Path) -> None:
    def work(row: dict[str, Any]) -> Any:
        env = TextEnv({}, row)
        env.init(row["prompt"])
        texts = [
            env.step('<tool_call>\n{"name": "jump", "arguments": {}}\n</tool_call>'),
            env.step('<tool_call>\n{"name": "look", "arguments": {\n</tool_call>'),
            env.step("nothing"),
        ]
        env.close()
        return texts, env.get_metrics()

    (jump, broken, last), metrics = play(tmp_path, work)
    assert "There is no tool named 'jump'" in jump["observations"][0]["content"]
    assert "not run" in broken["observations"][0]["content"]
    assert (last["reward"], last["done"]) == (0.0, True)
    assert (metrics["unknown_calls"], metrics["invalid_calls"], metrics["failed"]) == (1, 1, 0.0)


def test_a_dead_env_is_an_exception_and_never_a_reward(tmp_path: Path) -> None:
    def work(row: dict[str, Any]) -> Any:
        env = TextEnv({}, row)
        env.init(row["prompt"])
        with pytest.raises(EpisodeFailed) as caught:
            env.step(DIE)
        with pytest.raises(EpisodeFailed):
            env.step(LOOK)
        env.close()
        return caught.value.failure, env.get_metrics()

    failure, metrics = play(tmp_path, work)
    assert failure.kind == "env"
    assert metrics == {"failed": 1.0}


def test_an_unfinished_episode_is_given_back(tmp_path: Path) -> None:
    def work(row: dict[str, Any]) -> Any:
        env = TextEnv({}, row)
        env.init(row["prompt"])
        env.close()
        with pytest.raises(EpisodeFailed):
            env.step(LOOK)
        with pytest.raises(EpisodeFailed):
            env.init(row["prompt"])
        return env.get_metrics()

    assert play(tmp_path, work) == {"failed": 1.0}


def test_the_process_may_end_with_open_episodes(tmp_path: Path) -> None:
    def work(row: dict[str, Any]) -> Any:
        env = TextEnv({}, row)
        env.init(row["prompt"])
        stop()  # as at exit

    play(tmp_path, work)


def test_turns_of_the_trainer_go_before_those_of_the_row(tmp_path: Path) -> None:
    def work(row: dict[str, Any]) -> Any:
        env = TextEnv({}, {**row, "max_turns": 1})
        env.init(row["prompt"])
        step = env.step(LOOK)
        env.close()
        return step, TextEnv({}, row).max_turns

    step, own = play(tmp_path, work)
    assert step["done"]
    assert own == SETTINGS.max_turns


def test_a_model_that_never_replies_is_a_failure(tmp_path: Path) -> None:
    def work(row: dict[str, Any]) -> Any:
        env = TextEnv({}, row)
        env.init(row["prompt"])
        while not env.over:
            threading.Event().wait(0.02)
        with pytest.raises(EpisodeFailed, match="model_timeout"):
            env.step(LOOK)
        env.close()

    play(tmp_path, work, settings=RowSettings(tool_timeout=5, reset_timeout=10, model_timeout=0.2))


def test_how_a_reply_ended(tmp_path: Path) -> None:
    def work(row: dict[str, Any]) -> Any:
        env = TextEnv({}, row)
        env.init(row["prompt"])
        env.finish_reason = "length"
        cut = env.step(LOOK)
        aborted = TextEnv({}, row)
        aborted.init(row["prompt"])
        aborted.finish_reason = "abort"
        with pytest.raises(EpisodeFailed, match="aborted"):
            aborted.step(LOOK)
        env.close()
        aborted.close()
        return cut, env.get_metrics()

    cut, metrics = play(tmp_path, work)
    assert (cut["done"], cut["reward"], metrics["truncated"], metrics["tool_calls"]) == (True, 0.0, 1.0, 0)


def test_an_episode_without_room_is_scored(tmp_path: Path) -> None:
    def work(row: dict[str, Any]) -> Any:
        async def leave() -> float:
            env = TextEnv({}, row)
            await env.ainit(row["prompt"])
            await env.astep(LOOK)
            reward = await env.aleave()
            await env.aclose()
            assert env.result is not None
            assert env.result.truncated
            return reward

        return asyncio.run(leave())

    assert play(tmp_path, work) == 0.0


def test_a_server_that_is_gone_is_a_failure(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = []
    play(tmp_path, rows.append, settings=RowSettings(tool_timeout=1, reset_timeout=1, model_timeout=1))
    env = TextEnv({}, rows[0])
    with pytest.raises(EpisodeFailed) as caught:
        env.init(rows[0]["prompt"])
    env.close()
    stop()
    assert caught.value.failure.kind == "server"


def test_an_environment_enters_itself_where_one_asks(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = []
    play(tmp_path, rows.append)
    envs: list[TextEnv] = []
    token = made.set(envs)
    env = TextEnv({}, rows[0])
    made.reset(token)
    assert envs == [env]


FOREIGN: list[tuple[dict[str, Any], str]] = [
    ({"agentenv": None}, "agentenv rows skyrl"),
    ({"agentenv": "{"}, "not valid JSON"),
    ({"agentenv": "[]"}, "agentenv rows skyrl"),
    ({"agentenv": "{}"}, "'url'"),
    ({"tools": "{}"}, "'tools'"),
    ({"tools": [{}]}, "'tools' as JSON text"),
    ({"index": -1}, "'index'"),
    ({"index": 1.5}, "'index'"),
    ({"split": ""}, "'split'"),
    ({"max_turns": 0}, "'max_turns'"),
    ({"agentenv": '{"url": "http://x", "tool_timeout": 0}'}, "'tool_timeout'"),
    ({"agentenv": '{"url": "http://x", "token_var": "AGENTENV_NO_SUCH"}'}, "AGENTENV_NO_SUCH"),
]


@pytest.mark.parametrize(("change", "words"), FOREIGN)
def test_a_row_that_is_none_of_ours_is_said(change: dict[str, Any], words: str) -> None:
    row = {"split": "train", "index": 0.0, "tools": "[]", "agentenv": '{"url": "http://x"}'}
    assert TextEnv({}, row).row.index == 0
    with pytest.raises(UsageError, match=words):
        TextEnv({}, {**row, **change})


def test_metrics_are_means_over_the_episodes_that_have_them() -> None:
    assert TextEnv.aggregate_metrics([{"failed": 1.0}, {"failed": 0.0, "turns": 4, "name": "x"}]) == {
        "failed": 0.5,
        "turns": 4.0,
    }
