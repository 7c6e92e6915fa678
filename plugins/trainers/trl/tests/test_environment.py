"""Environments and the reward function over a real server, without TRL: as its loop would call them."""

from __future__ import annotations

import asyncio
import gc
import inspect
import logging
import pickle
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.errors import EpisodeFailed, UsageError
from agent_env.rollout.steps import OVER
from agent_env.testing.small import WORD, ask, contains, make_room, serve_in_process, small_bundle, write_bundle
from agent_env.training.trl import BundleSpec

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

Message = dict[str, Any]


def say(content: str) -> Message:
    return {"role": "assistant", "content": content}


def call(name: str, **arguments: Any) -> Message:
    function = {"name": name, "arguments": arguments}
    return {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": function}]}


def answer(name: str, content: str) -> Message:
    return {"role": "tool", "name": name, "content": content}


@asynccontextmanager
async def serving(bundle: Path, **options: Any) -> AsyncGenerator[tuple[BundleSpec, Any]]:
    async with serve_in_process(bundle, **options) as served:
        spec = BundleSpec(served.url, tool_timeout=5, reset_timeout=10)
        await asyncio.to_thread(lambda: spec.environment_classes)
        yield spec, served
        await asyncio.to_thread(spec.close)
        await served.quiet()


def play(bundle: Path, script: Any, **options: Any) -> Any:
    """Run the synchronous ``script(spec)`` in a thread, beside the server."""

    async def main() -> Any:
        async with serving(bundle, **options) as (spec, served):
            result = await asyncio.to_thread(script, spec)
            del served
            return result

    return asyncio.run(main())


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return small_bundle(tmp_path / "small")


def test_tools_are_the_only_public_methods(bundle: Path) -> None:
    def script(spec: BundleSpec) -> list[str]:
        kind: type = spec.environment_factory
        found: list[tuple[str, Any]] = inspect.getmembers(kind, predicate=inspect.isfunction)
        return [name for name, _ in found if not name.startswith("_")]

    assert play(bundle, script) == ["die", "end_turn", "look", "reset"]


def test_an_episode_is_scored_by_its_last_reply(bundle: Path) -> None:
    def script(spec: BundleSpec) -> Any:
        row = spec.rows("train")[0]
        first, second, third = (spec.environment_factory() for _ in range(3))
        for environment in (first, second, third):
            assert environment.reset(**row) is None
        seen = first.look()
        assert second.end_turn(response=WORD) == "The episode is over."
        assert second.look() == second.end_turn(response="x") == OVER
        completions = [
            [call("look"), answer("look", seen), say(f"It is {WORD}.")],
            [call("end_turn", response=WORD), answer("end_turn", "…"), say("So long.")],
            [say("I do not know.")],
        ]
        environments = [first, second, third]
        rewards = spec.reward_funcs(completions=completions, environments=environments)
        assert spec.reward_funcs(completions=completions, environments=environments) == rewards
        return seen, rewards, first.look()

    seen, rewards, after = play(bundle, script)
    assert WORD in seen
    assert rewards == [1.0, 1.0, 0.0]
    assert after == OVER


def test_a_failed_env_has_no_reward(bundle: Path, caplog: pytest.LogCaptureFixture) -> None:
    metrics: dict[str, float] = {}
    extra: dict[str, list[str]] = {}

    def script(spec: BundleSpec) -> Any:
        row, other = spec.rows("train")
        environments = [spec.environment_factory() for _ in range(4)]
        for environment, task in zip(environments, (row, row, other, other), strict=True):
            environment.reset(**task)
        assert environments[0].die() == OVER
        assert environments[0].look() == OVER
        completions = [[call("die"), answer("die", OVER), say(WORD)], [say(WORD)], [say(WORD)], [say("x")]]
        masked = spec.reward_funcs(
            completions=completions,
            environments=environments,
            log_metric=metrics.__setitem__,
            log_extra=extra.__setitem__,
        )
        dropping = BundleSpec(spec.url, on_infra_failure="drop").reward_funcs
        dropped = dropping(completions=completions, environments=environments)
        with pytest.raises(EpisodeFailed, match="env"):
            BundleSpec(spec.url, on_infra_failure="raise").reward_funcs(
                completions=completions, environments=environments
            )
        return masked, dropped

    with caplog.at_level(logging.WARNING):
        masked, dropped = play(bundle, script)
    assert masked == [None, 1.0, 1.0, 0.0]
    assert dropped == [None, None, 1.0, 0.0]
    assert metrics["agentenv/failed"] == 0.25
    assert metrics["agentenv/scores/word"] == pytest.approx(2 / 3)
    assert extra["agentenv_failure"][0].startswith("env: ")
    assert extra["agentenv_failure"][1:] == ["", "", ""]
    assert "1 of 4 episodes failed (1 env)" in caplog.text


def test_a_server_that_is_gone_is_no_zero_either(bundle: Path) -> None:
    async def main() -> Any:
        async with serving(bundle) as (spec, _):
            environment = spec.environment_factory()
            row = spec.rows("train")[0]
            await asyncio.to_thread(environment.reset, **row)
            await asyncio.to_thread(environment.look)
        # The server has stopped; the episode went with it.
        late = BundleSpec(spec.url, reset_timeout=0.5)
        late.__dict__["_splits"], late.__dict__["_offer"] = spec._splits, spec._offer
        fresh = late.environment_factory()
        await asyncio.to_thread(fresh.reset, **row)
        unprompted = late.environment_factory()
        words = await asyncio.to_thread(unprompted.reset, **{**row, "prompt": [{"role": "user", "content": ""}]})
        environments, completions = [environment, fresh, unprompted], [[say(WORD)]] * 3
        return words, spec.reward_funcs(completions=completions, environments=environments)

    words, rewards = asyncio.run(main())
    assert words == "The task could not be started."
    assert rewards == [None, None, None]


def test_a_row_without_a_prompt_gets_the_tasks_own(bundle: Path) -> None:
    def script(spec: BundleSpec) -> Any:
        return spec.environment_factory().reset(split="train", index=1.0)

    assert play(bundle, script) == "Which word is in room find-1?"


def test_a_row_that_names_no_task_is_an_error(bundle: Path) -> None:
    def script(spec: BundleSpec) -> None:
        environment = spec.environment_factory()
        for row in ({}, {"split": "train"}, {"index": 0}, {"split": "train", "index": "0"}):
            with pytest.raises(UsageError, match="train_dataset"):
                environment.reset(**row)
        assert environment.look() == OVER
        with pytest.raises(UsageError, match="environment_factory"):
            spec.reward_funcs(completions=[])

    play(bundle, script)


def test_calls_that_trl_did_not_run_are_run_before_scoring(bundle: Path) -> None:
    """At max_tool_calling_iterations TRL leaves the calls of the last reply; every other trainer plays them."""

    def script(spec: BundleSpec) -> Any:
        row = spec.rows("train")[0]
        stopped, dropped = (spec.environment_factory() for _ in range(2))
        for environment in (stopped, dropped):
            environment.reset(**row)
        seen = stopped.look()
        dropped.look()
        stopped_end = [call("look"), answer("look", seen), call("end_turn", response=WORD)]
        # TRL ran this call and took the answer back: it must not run again.
        dropped_end = [{**call("look"), "content": f"Perhaps {WORD}?"}]
        rewards = spec.reward_funcs(completions=[stopped_end, dropped_end], environments=[stopped, dropped])
        return rewards, stopped._result(), dropped._result()

    rewards, stopped, dropped = play(bundle, script)
    assert rewards == [1.0, 1.0]
    assert (stopped.tool_calls, stopped.truncated, stopped.end_reason) == (1, False, "end_turn")
    assert (dropped.tool_calls, dropped.truncated) == (1, True)


def test_a_cut_reply_is_told_by_its_last_token(bundle: Path) -> None:
    def script(spec: BundleSpec) -> Any:
        row = spec.rows("train")[0]
        environments = [spec.environment_factory() for _ in range(2)]
        for environment in environments:
            environment.reset(**row)
        spec._learn_ends(frozenset({9}))
        spec.reward_funcs(
            completions=[[say(WORD)], [say(WORD)]], completion_ids=[[1, 9], [1, 2]], environments=environments
        )
        return [environment._result().truncated for environment in environments]

    assert play(bundle, script) == [False, True]


def test_turns_follow_one_another(tmp_path: Path) -> None:
    steps = ask("First?")
    second = {"id": "again", "type": "prompt_agent", "prompt": "Second?", "prompt_id": "second"}
    steps = [*steps, second, {**contains("word", WORD), "prompt_id": "second"}]
    bundle = write_bundle(tmp_path / "turns", {"two": steps}, evals={"train": ["two"]})

    def script(spec: BundleSpec) -> Any:
        row = spec.rows("train")[0]
        whole, short = (spec.environment_factory() for _ in range(2))
        for environment in (whole, short):
            environment.reset(**row)
        said = whole.end_turn(response="one")
        completions = [[call("end_turn", response="one"), answer("end_turn", said), say(WORD)], [say(WORD)]]
        return said, spec.reward_funcs(completions=completions, environments=[whole, short])

    said, rewards = play(bundle, script)
    assert said == "Second?"
    assert rewards == [1.0, 0.0]


def test_environments_are_closed_whatever_becomes_of_them(bundle: Path) -> None:
    async def main() -> None:
        async with serving(bundle) as (spec, served):
            row = spec.rows("train")[0]

            def use() -> Any:
                kept, lost = spec.environment_factory(), spec.environment_factory()
                for environment in (kept, lost):
                    environment.reset(**row)
                    environment.look()
                return kept

            kept = await asyncio.to_thread(use)
            gc.collect()
            async with asyncio.timeout(10):
                while sum(not env.closed for env in served.deployer.deployed) > 1:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            again = await asyncio.to_thread(kept.reset, **row)  # a reset gives the open episode back
            assert again is None
            await asyncio.to_thread(kept.look)
            await asyncio.to_thread(spec.close)
            await served.quiet()
            assert await asyncio.to_thread(kept.look) == OVER

    asyncio.run(main())


def test_a_class_for_each_set_of_tools(tmp_path: Path) -> None:
    other = [*ask("Where?"), contains("word", WORD)]
    other[0] = {**other[0], "env_id": "hall"}
    other[1] = {**other[1], "env_ids": ["hall"]}
    tasks = {"find": [*ask("Which?"), contains("word", WORD)], "hall": other}
    bundle = write_bundle(tmp_path / "two", tasks, evals={"train": list(tasks)}, envs=("room", "hall"))

    def hall() -> Any:
        env = make_room()
        env.specs = env.specs[:1]
        return env

    def script(spec: BundleSpec) -> Any:
        found: dict[str, list[bool]] = {}
        for row in spec.rows("train"):
            environment = spec.environment_factory[row["environment"]]()
            environment.reset(**row)
            found[row["task_id"]] = [hasattr(environment, "die"), "look" in dir(environment)]
            environment._close()
        return found

    found = play(bundle, script, envs={"room": make_room, "hall": hall})
    assert sorted(found.values()) == [[False, True], [True, True]]


def test_a_row_whose_tools_changed_fails(bundle: Path) -> None:
    def script(spec: BundleSpec) -> Any:
        next(iter(spec._offer.tools.values()))[0]["function"]["name"] = "gaze"
        environment = spec.environment_classes.popitem()[1]()
        environment._about.tools[0]["function"]["name"] = "gaze"
        environment.reset(**spec.rows("train")[0])
        rewards = spec.reward_funcs(completions=[[say(WORD)]], environments=[environment])
        return rewards, str(environment._result().failure)

    rewards, failure = play(bundle, script)
    assert rewards == [None]
    assert "gaze" in failure


def test_a_spec_can_be_pickled(bundle: Path) -> None:
    def script(spec: BundleSpec) -> Any:
        _ = spec.environment_factory, spec.reward_funcs
        copy = pickle.loads(pickle.dumps(spec))
        environment = copy.environment_factory()
        environment.reset(**copy.rows("train")[0])
        rewards = copy.reward_funcs(completions=[[say(WORD)]], environments=[environment])
        copy.close()
        return rewards

    assert play(bundle, script) == [1.0]


def test_wrong_specs_are_named(bundle: Path) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"on_infra_failure": "zero"}, "mask, drop or raise"),
        ({"limit": 0}, "limit"),
        ({"tool_timeout": 0}, "tool_timeout"),
        ({"name": "a b"}, "'a b'"),
    ]
    for options, words in wrong:
        with pytest.raises(UsageError, match=words):
            BundleSpec("http://127.0.0.1:9", **options)
    with pytest.raises(UsageError, match="token_var"):
        BundleSpec("http://me:secret@127.0.0.1:9")

    def script(spec: BundleSpec) -> None:
        with pytest.raises(UsageError, match=r"no split 'nowhere'; it has: .*train"):
            _ = BundleSpec(spec.url, train_split="nowhere").environment_factory

    play(bundle, script)
