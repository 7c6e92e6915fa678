"""Masking a failed rollout's group, for any output of a generator."""

from __future__ import annotations

import copy
import statistics
from types import SimpleNamespace
from typing import Any, cast

import pytest
from agent_env.errors import UsageError
from agent_env.training.skyrl.failures import ERROR, Rows, failed_rollouts, fill_experts, group_keys, mask_groups
from agent_env.training.skyrl.generator import check_choice
from hypothesis import given
from hypothesis import strategies as st


@st.composite
def outputs(draw: st.DrawFn) -> tuple[dict[str, Any], list[str], set[int], bool]:
    """An output, the groups of its rollouts, the failed ones, and whether its rewards are lists."""
    groups = [str(number) for number in range(draw(st.integers(1, 4))) for _ in range(draw(st.integers(1, 4)))]
    failed = draw(st.sets(st.integers(0, len(groups) - 1)))
    as_lists, step_wise = draw(st.booleans()), draw(st.booleans())
    output: dict[str, Any] = {key: [] for key in ("response_ids", "loss_masks", "rewards", "stop_reasons")}
    last: list[bool] = []
    for owner in range(len(groups)):
        count = draw(st.integers(1, 3)) if step_wise and owner not in failed else 1
        for row in range(count):
            length = 1 if owner in failed else draw(st.integers(1, 5))
            reward = 0.0 if owner in failed or row < count - 1 else draw(st.floats(-1, 1))
            output["response_ids"].append([7] * length)
            output["loss_masks"].append([0 if owner in failed else 1] * length)
            output["rewards"].append([0.0] * (length - 1) + [reward] if as_lists else reward)
            output["stop_reasons"].append(ERROR if owner in failed else "stop")
            last.append(row == count - 1)
    if step_wise:
        output["is_last_step"] = last
    return output, groups, failed, as_lists


def total(reward: Any) -> float:
    return float(sum(cast("list[float]", reward)) if isinstance(reward, list) else reward)


@given(outputs())
def test_the_group_of_a_failed_rollout_says_nothing(case: tuple[dict[str, Any], list[str], set[int], bool]) -> None:
    output, groups, failed, as_lists = case
    before = copy.deepcopy(output)
    rows = Rows.of(output)
    assert failed_rollouts(output, rows) == failed
    hit = mask_groups(output, rows, groups, failed)
    assert hit == {groups[owner] for owner in failed}
    totals: dict[str, list[float]] = {}
    for row, owner in enumerate(rows.owners):
        assert len(output["loss_masks"][row]) == len(before["response_ids"][row])
        assert isinstance(output["rewards"][row], list) == as_lists
        if as_lists:
            assert len(output["rewards"][row]) == len(before["response_ids"][row])
        if groups[owner] in hit:
            assert not any(output["loss_masks"][row])
            if rows.last[row]:
                totals.setdefault(groups[owner], []).append(total(output["rewards"][row]))
            else:
                assert total(output["rewards"][row]) == 0
        else:
            assert output["loss_masks"][row] == before["loss_masks"][row]
            assert output["rewards"][row] == before["rewards"][row]
    for values in totals.values():
        assert len(set(values)) == 1
        assert statistics.pstdev(values) == 0


@given(outputs())
def test_the_mean_reward_of_a_group_is_that_of_its_scored_rollouts(
    case: tuple[dict[str, Any], list[str], set[int], bool],
) -> None:
    output, groups, failed, _ = case
    rows = Rows.of(output)
    scores = [(rows.owners[row], total(output["rewards"][row])) for row in range(len(rows.owners)) if rows.last[row]]
    mask_groups(output, rows, groups, failed)
    for group in {groups[owner] for owner in failed}:
        scored = [score for owner, score in scores if owner not in failed and groups[owner] == group]
        scored = scored or [score for owner, score in scores if owner not in failed] or [0.0]
        for row, owner in enumerate(rows.owners):
            if groups[owner] == group and rows.last[row]:
                assert total(output["rewards"][row]) == pytest.approx(statistics.fmean(scored), abs=1e-6)


def test_groups_are_those_of_the_trainer_or_of_the_task() -> None:
    ids = [SimpleNamespace(instance_id=name) for name in "aab"]
    assert group_keys({"trajectory_ids": ids}) == ["a", "a", "b"]
    extras = [{"split": "train", "index": index, "seed": seed} for index, seed in ((0, 1), (0, 1), (0, 2), (1, None))]
    first, second, third, fourth = group_keys({"trajectory_ids": None, "env_extras": extras})
    assert first == second
    assert len({second, third, fourth}) == 3


def test_routed_experts_are_filled_to_the_length() -> None:
    output: dict[str, Any] = {
        "prompt_token_ids": [[1], [1, 2]],
        "response_ids": [[9], [3, 4]],
        "rollout_expert_indices": [None, [[[5, 6]]] * 4],
    }
    fill_experts(output, Rows((0, 1), (True, True)), {0})
    assert output["rollout_expert_indices"] == [[[[0, 0]]] * 2, [[[5, 6]]] * 4]


@pytest.mark.parametrize("choice", ["drop", "zero", ""])
def test_choices_that_skyrl_cannot_have(choice: str) -> None:
    with pytest.raises(UsageError, match="'mask'"):
        check_choice(choice)
    check_choice("mask")
    check_choice("raise")
