"""Reward function and group filters, on samples shaped as Miles' and on anything else."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from enum import Enum
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from agent_env.training.miles import agent
from hypothesis import given
from hypothesis import strategies as st

FILTERS = [agent.keep_scored_groups, agent.keep_trainable_groups]
ARGS = SimpleNamespace(n_samples_per_prompt=2, reward_key=None)


class Status(Enum):
    COMPLETED = "completed"
    TRUNCATED = "truncated"
    ABORTED = "aborted"


def sample(reward: Any = 1.0, status: Status = Status.COMPLETED, **metadata: Any) -> SimpleNamespace:
    fields: dict[str, Any] = {"reward": reward, "agentenv_scores": {}, **metadata}
    return SimpleNamespace(reward=reward, status=status, metadata=fields)


def failed(kind: str = "env") -> SimpleNamespace:
    return sample(0.0, agentenv_failure=f"{kind}: it died")


def aborted() -> SimpleNamespace:
    return SimpleNamespace(reward=None, status=Status.ABORTED, metadata={"split": "train"})


KEPT = [
    [sample(1.0), sample(0.0)],
    [sample(1.0), sample(0.5, Status.TRUNCATED)],
    [[sample(1.0)], [sample(0.0)]],
    [[sample(1.0), sample(1.0)], [sample(0.0)]],
    [sample(1), sample(0.25), sample(0.5)],
]
DROPPED = [
    [sample(), failed()],
    [sample(), aborted()],
    [aborted(), aborted()],
    [[sample()], [aborted()]],
    [[sample()], [sample(), failed("verifier")]],
    [sample(), None],
    [[sample()], None],
    [[sample()], []],
    [sample(), [None]],
    [sample()],
    [],
    [sample(), sample(None)],
    [sample(), sample(float("nan"))],
    [sample(), sample(True)],
    [sample(), sample("1.0")],
    [sample(), SimpleNamespace(reward=1.0, status=Status.COMPLETED, metadata={})],
    [sample(), SimpleNamespace(reward=1.0, status=Status.COMPLETED, metadata=None)],
    [sample(), SimpleNamespace()],
    [sample(), sample(1.0, Status.ABORTED)],
    None,
    sample(),
]


@pytest.mark.parametrize("keep", FILTERS)
@pytest.mark.parametrize("group", KEPT)
def test_scored_groups_are_kept(keep: Any, group: Any) -> None:
    assert keep(ARGS, group) is True


@pytest.mark.parametrize("keep", FILTERS)
@pytest.mark.parametrize("group", DROPPED)
def test_a_group_with_a_sample_that_was_not_scored_is_dropped(keep: Any, group: Any) -> None:
    assert keep(ARGS, group) is False


@pytest.mark.parametrize("reward", [0.0, 1.0, 0.3])
def test_groups_whose_rewards_do_not_vary_are_not_trainable(reward: float) -> None:
    group = [sample(reward), sample(reward)]
    assert agent.keep_scored_groups(ARGS, group) is True
    assert agent.keep_trainable_groups(ARGS, group) is False
    assert agent.keep_trainable_groups(ARGS, [[one] for one in group]) is False


def test_a_group_of_one_is_trainable() -> None:
    args = SimpleNamespace(n_samples_per_prompt=1)
    assert agent.keep_trainable_groups(args, [sample(1.0)]) is True
    assert agent.keep_trainable_groups(args, [[sample(1.0), sample(1.0)]]) is True


def test_a_smaller_group_is_kept_when_the_arguments_ask_for_nothing() -> None:
    assert agent.keep_scored_groups(SimpleNamespace(), [sample()], evaluation=True) is True
    assert agent.keep_scored_groups(None, [sample()]) is True


def test_dicts_of_rewards_are_read_by_the_reward_key() -> None:
    args = SimpleNamespace(reward_key="score")
    group = [
        SimpleNamespace(reward={"score": value}, status="completed", metadata={"reward": value}) for value in (0, 1)
    ]
    assert agent.keep_trainable_groups(args, group) is True
    assert agent.keep_trainable_groups(args, [group[0], group[0]]) is False
    assert agent.keep_scored_groups(SimpleNamespace(reward_key="other"), group) is False


def test_reward_reads_what_run_left() -> None:
    async def main() -> None:
        assert await agent.reward(None, sample(0.75)) == 0.75
        assert await agent.reward(None, [sample(0.75), failed()], evaluation=True) == [0.75, 0.0]
        assert await agent.reward(None, []) == []
        assert await agent.reward(None, aborted()) == 0.0
        assert await agent.reward(None, sample(float("inf"))) == 0.0
        value = await agent.reward(None, sample(1))
        assert type(value) is float

    asyncio.run(main())


def test_drops_are_counted_with_a_reason_where_miles_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert agent.keep_scored_groups_counted(ARGS, [sample(), failed()]) is False
    assert agent.keep_scored_groups_counted(ARGS, [sample(), sample()]) is True

    @dataclass
    class DynamicFilterOutput:
        keep: bool
        reason: str | None = None

    for name in ("miles", "miles.rollout", "miles.rollout.filter_hub"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    module = ModuleType("miles.rollout.filter_hub.base_types")
    module.DynamicFilterOutput = DynamicFilterOutput  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    counted = agent.keep_scored_groups_counted
    assert counted(ARGS, [sample(), sample()]) == DynamicFilterOutput(keep=True, reason=None)
    assert counted(ARGS, [sample(), failed("tool_timeout")]) == DynamicFilterOutput(False, "failed_tool_timeout")
    assert counted(ARGS, [sample(), aborted()]) == DynamicFilterOutput(False, "aborted")
    assert counted(ARGS, [sample(), None]) == DynamicFilterOutput(False, "missing")
    assert counted(ARGS, [sample(), sample(None)]) == DynamicFilterOutput(False, "unscored")
    assert counted(ARGS, [sample(), failed("a b\nc")]) == DynamicFilterOutput(False, "failed_unknown")


class Hostile:
    """An object whose every attribute raises."""

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("__"):
            return super().__getattribute__(name)
        raise RuntimeError(name)


anything: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.builds(Hostile)
    | st.builds(sample, st.none() | st.floats() | st.text(max_size=3), st.sampled_from(Status))
    | st.builds(
        SimpleNamespace,
        reward=st.none() | st.floats() | st.dictionaries(st.text(max_size=3), st.floats(), max_size=2),
        status=st.none() | st.sampled_from(Status) | st.text(max_size=3),
        metadata=st.none() | st.dictionaries(st.text(max_size=8), st.none() | st.floats() | st.text(max_size=8)),
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)


@given(anything, anything)
def test_filters_and_reward_never_raise(args: Any, group: Any) -> None:
    for keep in FILTERS:
        assert type(keep(args, group)) is bool
    assert type(agent.keep_scored_groups_counted(args, group)) is bool
    rewards = asyncio.run(agent.reward(args, group))
    assert isinstance(rewards, list) == isinstance(group, list)
    for reward in rewards if isinstance(rewards, list) else [rewards]:
        assert type(reward) is float
        assert reward == reward
        assert abs(reward) != float("inf")
