"""The combiners of agentenv-reward-gated, built as the engine builds them: by name through the registry."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

import pytest
from agent_env.errors import RewardError
from agent_env.plugin.reward import EpisodeFacts, RewardCombiner
from agent_env.plugin.reward_spec import quoted
from agent_env.registry import Registry
from agent_env.rewards.gated import hooks
from hypothesis import assume, given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable

REGISTRY = Registry({"agentenv-reward-gated:gated": hooks}, entry_points=False)
SCORES = {"grade": 0.75, "format": 1.0, "style": 0.5}
UNIT = st.floats(0, 1)


def facts(
    turns: int = 1, tool_calls: int = 0, invalid_calls: int = 0, seconds: float = 0.0, *, truncated: bool = False
) -> EpisodeFacts:
    return EpisodeFacts("t", turns, tool_calls, invalid_calls, truncated, seconds)


def build(spec: str) -> RewardCombiner:
    name, _, arguments = spec.partition(":")
    factory = cast("Callable[[str], RewardCombiner]", REGISTRY.load("reward", name))
    return factory(arguments)


def reward(spec: str, episode: EpisodeFacts | None = None) -> float:
    combiner = build(spec)
    assert combiner.check(list(SCORES)) == []
    return combiner.combine(SCORES, episode or facts())


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("gate:format>=1,then=grade,else=0", 0.75),
        ("gate:format>1,then=grade,else=0", 0.0),
        ("gate:then=grade, else=-1, style<0.5", -1.0),
        ("gate:style<=0.5,format==1,then=1,else=0", 1.0),
        ("gate:style<=0.5,format!=1,then=1,else=0", 0.0),
        ("gate:format>=1,then=0.5*grade+0.5*style,else=0", 0.625),
        ("gate:format>=1,then=grade,else=0,max=0.5", 0.5),
        ('gate:"format">=1e0,then="grade",else=.5', 0.75),
        ("gate:@invalid_calls==0,then=grade,else=0", 0.75),
        ("gate:@turns>1,then=grade,else=0.25", 0.25),
        ("clip:grade+style", 1.0),
        ("clip:grade+style,max=1.2", 1.2),
        ("clip:grade+-2,min=-1", -1.0),
        ("clip:-1*grade", 0.0),
        ("clip:+1", 1.0),
        ("clip:1e-1", 0.1),
        ("penalized:1,per_turn=0.25", 0.75),
    ],
)
def test_rewards(spec: str, expected: float) -> None:
    assert reward(spec) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("options", "episode", "penalty"),
    [
        ("per_turn=0.1,free_turns=2", facts(turns=5), 0.3),
        ("per_turn=0.1,free_turns=9", facts(turns=5), 0.0),
        ("per_call=0.01", facts(tool_calls=7), 0.07),
        ("per_call=0.01,free_calls=5", facts(tool_calls=7), 0.02),
        ("per_invalid_call=0.1,free_invalid_calls=1", facts(invalid_calls=3), 0.2),
        ("per_second=0.001,free_seconds=10", facts(seconds=60.0), 0.05),
        ("truncated=0.5", facts(truncated=True), 0.5),
        ("truncated=0.5", facts(), 0.0),
        ("per_call=0.1,truncated=0.2,min=0", facts(tool_calls=99, truncated=True), 0.75),
    ],
)
def test_penalties_are_subtracted_beyond_what_is_free(options: str, episode: EpisodeFacts, penalty: float) -> None:
    assert reward(f"penalized:grade,{options}", episode) == pytest.approx(0.75 - penalty)
    assert reward(f"gate:format>=1,then=grade,else=0,{options}", episode) == pytest.approx(0.75 - penalty)


@pytest.mark.parametrize(
    "spec",
    [
        "gate:x>=1,then=1,else=0",
        "gate:format>=1,then=x,else=0",
        "gate:format>=1,then=grade,else=x",
        "clip:0.5*x",
        "penalized:x,per_call=1",
    ],
)
def test_a_missing_score_is_an_error_and_never_0(spec: str) -> None:
    (problem,) = build(spec).check(list(SCORES))
    assert "'x'" in problem
    assert "'grade', 'format', 'style'" in problem
    with pytest.raises(RewardError, match="step 'x' has no score"):
        build(spec).combine(SCORES, facts())


@pytest.mark.parametrize("score", [math.nan, math.inf])
def test_a_score_that_is_not_finite_is_an_error(score: float) -> None:
    for spec in ("gate:grade>0,then=1,else=0", "clip:grade", "penalized:grade,per_call=1"):
        with pytest.raises(RewardError, match="step 'grade'"):
            build(spec).combine({"grade": score}, facts())


def test_a_reward_that_is_not_finite_is_an_error() -> None:
    for spec in ("penalized:1e308*grade+1e308*style,per_call=1", "penalized:1e308,per_call=1e308"):
        with pytest.raises(RewardError):
            build(spec).combine({"grade": 1.7, "style": 1.7}, facts(tool_calls=9999))


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("gate", "there is no condition"),
        ("gate:then=1,else=0", "there is no condition"),
        ("gate:format>=1,else=0", "then= is missing"),
        ("gate:format>=1,then=1", "else= is missing"),
        ("gate:format>=1,then=1,else=1", "then and else are the same"),
        ("gate:format=1,then=1,else=0", "there is no option 'format'"),
        ("gate:format>=1,thn=1,else=0", "did you mean 'then'?"),
        ("gate:format>=1,then=1,then=2,else=0", "then= stands there twice"),
        ("gate:format>=high,then=1,else=0", "the bound of 'format>=high' must be a finite number, not 'high'"),
        ("gate:format>=nan,then=1,else=0", "must be a finite number, not 'nan'"),
        ("gate:>=1,then=1,else=0", "a step id is empty"),
        ("gate:@turn>1,then=1,else=0", "there is no fact '@turn'; there are: @turns"),
        ("gate:format>=1,then=grade+grade,else=0", "'grade' stands twice"),
        ("gate:format>=1,then=two*grade,else=0", "the factor before '*' must be a finite number, not 'two'"),
        ("gate:format>=1,then=,else=0", "a value is empty"),
        ("gate:format>=1,then=grade>=1,else=0", "stands in double quotes, unlike 'grade>=1'"),
        ("gate:format>=1,grade,then=1,else=0", "'grade' is neither a condition nor an option"),
        ("penalized:grade", "there is no penalty"),
        ("penalized:per_call=1", "the value to start from must come first"),
        ("penalized", "the value to start from must come first"),
        ("penalized:grade,per_call=-1", "per_call must not be negative"),
        ("penalized:grade,free_calls=3", "free_calls means nothing without per_call"),
        ("penalized:grade,per_call=1,free_calls=-1", "free_calls must not be negative"),
        ("penalized:grade,per_calls=1", "did you mean 'per_call'?"),
        ("clip:grade,min=1,max=0", "min=1 must be less than max=0"),
        ("clip:grade,min=0,max=0", "min=0 must be less than max=0"),
        ("clip:grade,per_call=1", "there is no option 'per_call'"),
        ("clip:1e999", "must be a finite number"),
        ("clip:1e308+1e308", "too large"),
        ("clip:grade,", "nothing stands between"),
    ],
)
def test_specs_that_cannot_work_are_refused_with_words(spec: str, says: str) -> None:
    with pytest.raises(RewardError) as caught:
        build(spec)
    name = spec.partition(":")[0]
    assert says in str(caught.value)
    assert str(caught.value).startswith(f"{name}: ")
    assert f"write for example {name}:" in str(caught.value)


@given(st.text(min_size=1), UNIT, UNIT, UNIT)
def test_a_gate_takes_one_of_its_two_values(step: str, score: float, bound: float, other: float) -> None:
    assume(other != 2)
    spec = f"gate:{quoted(step)}>={bound!r},then=2,else={other!r}"
    assert build(spec).combine({step: score}, facts()) == (2 if score >= bound else other)


@given(UNIT, st.integers(0, 50), st.integers(0, 50), st.floats(0, 1), st.integers(0, 10))
def test_more_calls_never_raise_the_reward(score: float, calls: int, more: int, rate: float, free: int) -> None:
    combiner = build(f"penalized:a,per_call={rate!r},free_calls={free}")
    fewer = combiner.combine({"a": score}, facts(tool_calls=calls))
    assert combiner.combine({"a": score}, facts(tool_calls=calls + more)) <= fewer <= score


@given(st.floats(-1e9, 1e9), st.floats(-10, 10), st.floats(-10, 10))
def test_a_clipped_reward_lies_within_its_bounds(score: float, one: float, two: float) -> None:
    low, high = min(one, two), max(one, two)
    assume(low < high)
    got = build(f"clip:a,min={low!r},max={high!r}").combine({"a": score}, facts())
    assert got == min(max(score, low), high)


@given(
    st.sampled_from(["gate", "penalized", "clip"]),
    st.lists(
        st.sampled_from(
            ["a>=1", "b<0", "a", "then=a", "else=0", "min=0", "max=1", "per_call=1", '"', "@turns>1", "x=", "*", "a*b"]
        )
        | st.text(alphabet='ab=<>*+@,."1-e ', max_size=8),
        max_size=6,
    ),
)
def test_any_arguments_build_or_are_refused(name: str, parts: list[str]) -> None:
    try:
        combiner = build(f"{name}:{','.join(parts)}")
    except RewardError:
        return
    if combiner.check(["a", "b"]):
        with pytest.raises(RewardError, match="has no score"):
            combiner.combine({"a": 0.5, "b": 0.5}, facts(tool_calls=2))
    else:
        assert math.isfinite(combiner.combine({"a": 0.5, "b": 0.5}, facts(tool_calls=2)))
