"""The helpers of combiner authors: quoting, numbers, scores, step ids."""

from __future__ import annotations

import math

import pytest
from agent_env.errors import RewardError
from agent_env.plugin.reward_spec import (
    is_number,
    number,
    quoted,
    score_of,
    split_at,
    split_parts,
    step_id,
    step_problems,
)
from hypothesis import given
from hypothesis import strategies as st

STEP_IDS = st.text(min_size=1)


@given(st.lists(STEP_IDS, min_size=1))
def test_any_step_id_survives_quoting(steps: list[str]) -> None:
    assert [step_id(part) for part in split_parts(",".join(map(quoted, steps)))] == steps


@given(STEP_IDS, st.sampled_from([">=", "=", "==", "*"]), st.text(alphabet="0123456789", min_size=1))
def test_signs_inside_quotes_do_not_cut(step: str, sign: str, right: str) -> None:
    cut = split_at(f"{quoted(step)} {sign} {right}", [">=", ">", "==", "=", "*"])
    assert cut == (quoted(step), sign, right)


@given(st.text())
def test_any_text_splits_or_is_refused(text: str) -> None:
    try:
        parts = split_parts(text)
    except RewardError:
        return
    assert all(part and part == part.strip() for part in parts)


@pytest.mark.parametrize("text", ["a,,b", ",a", "a,", " , ", 'a,"b', '"'])
def test_gaps_and_open_quotes_are_refused(text: str) -> None:
    with pytest.raises(RewardError):
        split_parts(text)


@pytest.mark.parametrize("part", ['"a"b', 'a"b"', '""', '"a""', '" "x'])
def test_half_quoted_ids_are_refused(part: str) -> None:
    with pytest.raises(RewardError):
        step_id(part)


@pytest.mark.parametrize("part", ["a=1", "a>b", "<", "2*a"])
def test_signs_outside_quotes_are_refused(part: str) -> None:
    with pytest.raises(RewardError, match="stands in double quotes"):
        step_id(part)
    assert step_id(quoted(part)) == part


@pytest.mark.parametrize("text", ["nan", "inf", "-Infinity", "1_0", "٣", "", "0x1", "1e", "1e999"])
def test_what_is_no_finite_number_is_refused(text: str) -> None:
    with pytest.raises(RewardError, match="the weight must be a finite number"):
        number(text, "the weight")


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_finite_numbers_are_read_exactly(value: float) -> None:
    assert is_number(repr(value))
    assert number(repr(value), "x") == value


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, None, "1", True])
def test_a_score_that_is_no_number_is_an_error(value: float) -> None:
    with pytest.raises(RewardError, match="step 'a' must be a finite number"):
        score_of({"a": value}, "a")


def test_a_missing_score_names_what_was_scored() -> None:
    with pytest.raises(RewardError, match="step 'c' has no score; scored: 'a', 'b'"):
        score_of({"a": 1.0, "b": 0.0}, "c")


def test_unknown_steps_list_the_tasks_own() -> None:
    problems = step_problems(["grade", "formt", "formt"], ["grade", "format"])
    assert problems == [
        "no scoring step is called 'formt'; the task's scoring steps: 'grade', 'format'; did you mean 'format'?"
    ]
