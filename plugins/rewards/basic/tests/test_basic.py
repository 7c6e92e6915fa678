"""The combiners of agentenv-reward-basic, built as the engine builds them: by name through the registry."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

import pytest
from agent_env.errors import RewardError
from agent_env.plugin.reward import EpisodeFacts, RewardCombiner
from agent_env.plugin.reward_spec import quoted
from agent_env.registry import Registry
from agent_env.rewards.basic import hooks
from hypothesis import assume, given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

REGISTRY = Registry({"agentenv-reward-basic:basic": hooks}, entry_points=False)
FACTS = EpisodeFacts(task_id="t")
SCORES = st.dictionaries(st.text(min_size=1), st.floats(0, 1), min_size=1)
WEIGHTS = st.dictionaries(st.text(min_size=1), st.floats(0, 1e300), min_size=1)


def build(spec: str) -> RewardCombiner:
    name, _, arguments = spec.partition(":")
    factory = cast("Callable[[str], RewardCombiner]", REGISTRY.load("reward", name))
    return factory(arguments)


@pytest.mark.parametrize(
    ("spec", "reward"),
    [
        ("mean", 0.5),
        ("min", 0.2),
        ("max", 0.8),
        ("product", 0.08),
        ("mean:a,c", 0.35),
        ("min:b,c", 0.5),
        ("max: a , c ", 0.5),
        ("product:a", 0.2),
        ("weighted:a=0.75,b=0.25", 0.35),
        ("weighted:a=3,b=1", 0.35),
        ('weighted:"a"=1,b=0', 0.2),
        ("weighted:a=5e-324", 0.2),
    ],
)
def test_rewards(spec: str, reward: float) -> None:
    combiner = build(spec)
    assert combiner.check(["a", "b", "c"]) == []
    assert combiner.combine({"a": 0.2, "b": 0.8, "c": 0.5}, FACTS) == pytest.approx(reward)


@pytest.mark.parametrize("spec", ["mean:a,x", "min:x", "max:x,b", "product:x", "weighted:a=1,x=1"])
def test_a_missing_score_is_an_error_and_never_0(spec: str) -> None:
    with pytest.raises(RewardError, match="step 'x' has no score; scored: 'a', 'b'"):
        build(spec).combine({"a": 1.0, "b": 1.0}, FACTS)


@pytest.mark.parametrize("spec", ["mean", "min", "max", "product"])
def test_no_score_at_all_is_an_error_and_never_0(spec: str) -> None:
    assert build(spec).check([]) == [f"{spec}: the task has no scoring step"]
    with pytest.raises(RewardError, match=f"{spec}: the task 't' has no score"):
        build(spec).combine({}, FACTS)


@pytest.mark.parametrize("spec", ["mean", "min", "max", "product", "mean:a", "weighted:a=1"])
@pytest.mark.parametrize("score", [math.nan, math.inf])
def test_a_score_that_is_not_finite_is_an_error(spec: str, score: float) -> None:
    with pytest.raises(RewardError, match="step 'a'"):
        build(spec).combine({"a": score, "b": 0.5}, FACTS)


@pytest.mark.parametrize("spec", ["mean", "product", "weighted:a=1,b=1"])
def test_a_reward_that_is_not_finite_is_an_error(spec: str) -> None:
    if spec.startswith("weighted"):
        assert build(spec).combine({"a": 1e308, "b": 1e308}, FACTS) == pytest.approx(1e308)
        return
    with pytest.raises(RewardError):
        build(spec).combine({"a": 1.7e308, "b": 1.7e308}, FACTS)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("weighted", "names no step"),
        ("weighted:", "names no step"),
        ("weighted:a", "'a' has no weight"),
        ("weighted:a=", "the weight of 'a' must be a finite number, not ''"),
        ("weighted:a=nan", "the weight of 'a' must be a finite number, not 'nan'"),
        ("weighted:a=inf", "the weight of 'a' must be a finite number, not 'inf'"),
        ("weighted:a=1,b=-0.5", "the weight of 'b' is negative"),
        ("weighted:a=0,b=0", "the weights sum to 0"),
        ("weighted:a=1,a=2", "'a' has two weights"),
        ("weighted:=1", "a step id is empty"),
        ("weighted:a=1,,b=2", "nothing stands between"),
        ("weighted:a=1;b=2", "'1;b=2'"),
        ("mean:a,a", "'a' stands there twice"),
        ("mean:,", "nothing stands between"),
        ("mean:a=1,b=2", "stands in double quotes, unlike 'a=1'"),
        ('max:"a', "a double quote is not closed"),
    ],
)
def test_specs_that_cannot_work_are_refused_with_words(spec: str, says: str) -> None:
    with pytest.raises(RewardError) as caught:
        build(spec)
    assert says in str(caught.value)
    assert str(caught.value).startswith(spec.partition(":")[0])


@pytest.mark.parametrize("spec", ["mean:grade,formt", "weighted:grade=1,formt=1"])
def test_an_unknown_step_lists_the_tasks_steps(spec: str) -> None:
    (problem,) = build(spec).check(["grade", "format"])
    assert "'formt'" in problem
    assert "the task's scoring steps: 'grade', 'format'; did you mean 'format'?" in problem


@given(SCORES)
def test_folds_stay_between_least_and_greatest(scores: dict[str, float]) -> None:
    least, greatest = min(scores.values()), max(scores.values())
    assert build("min").combine(scores, FACTS) == least
    assert build("max").combine(scores, FACTS) == greatest
    assert least - 1e-12 <= build("mean").combine(scores, FACTS) <= greatest + 1e-12
    assert 0 <= build("product").combine(scores, FACTS) <= least


@given(SCORES, st.randoms(use_true_random=False))
def test_the_order_of_scores_does_not_matter(scores: dict[str, float], rng: Random) -> None:
    items = list(scores.items())
    rng.shuffle(items)
    for spec in ("mean", "min", "max", "product"):
        assert build(spec).combine(dict(items), FACTS) == pytest.approx(build(spec).combine(scores, FACTS))


@given(WEIGHTS, st.data())
def test_a_weighted_mean_lies_among_its_scores(weights: dict[str, float], data: st.DataObject) -> None:
    assume(any(weights.values()))
    scores = {step: data.draw(st.floats(0, 1)) for step in weights}
    spec = "weighted:" + ",".join(f"{quoted(step)}={weight!r}" for step, weight in weights.items())
    counted = [scores[step] for step, weight in weights.items() if weight > 0]
    assert min(counted) - 1e-9 <= build(spec).combine(scores, FACTS) <= max(counted) + 1e-9


@given(st.sampled_from(["mean", "min", "max", "product", "weighted"]), st.text(alphabet='ab=,."1-e ', max_size=20))
def test_any_arguments_build_or_are_refused(name: str, arguments: str) -> None:
    try:
        combiner = build(f"{name}:{arguments}")
    except RewardError:
        return
    reward = combiner.combine(dict.fromkeys(["a", "b", *_named(combiner)], 0.5), FACTS)
    assert math.isfinite(reward)


def _named(combiner: RewardCombiner) -> list[str]:
    named = getattr(combiner, "steps", None) or getattr(combiner, "weights", {})
    return list(cast("list[str]", named))
