"""The statistics against naive oracles."""

from __future__ import annotations

import itertools
import math
import statistics

import pytest
from agent_env.evaluation.stats import (
    bootstrap_interval,
    mean_and_stderr,
    pass_at_k,
    quantile,
    t_cdf,
    t_interval,
    t_quantile,
)
from hypothesis import given
from hypothesis import strategies as st

REWARDS = st.lists(st.floats(-10, 10), min_size=2, max_size=30)


@given(st.integers(1, 9), st.data())
def test_pass_at_k_is_the_share_of_all_draws(episodes: int, data: st.DataObject) -> None:
    solved = data.draw(st.integers(0, episodes))
    k = data.draw(st.integers(1, episodes))
    draws = list(itertools.combinations([True] * solved + [False] * (episodes - solved), k))
    assert pass_at_k(episodes, solved, k) == pytest.approx(sum(map(any, draws)) / len(draws))


def test_pass_at_k_needs_k_episodes() -> None:
    assert pass_at_k(3, 3, 4) is None
    assert pass_at_k(0, 0, 1) is None
    assert pass_at_k(2000, 1, 1000) == pytest.approx(0.5)
    for wrong in ((3, 4, 1), (3, -1, 1), (3, 1, 0)):
        with pytest.raises(ValueError, match="no pass@"):
            pass_at_k(*wrong)


@given(REWARDS)
def test_mean_and_standard_error(values: list[float]) -> None:
    mean, stderr = mean_and_stderr(values)
    assert mean == pytest.approx(statistics.fmean(values), abs=1e-12)
    assert stderr == pytest.approx(statistics.stdev(values) / math.sqrt(len(values)), abs=1e-9)


def test_mean_and_standard_error_of_little() -> None:
    assert mean_and_stderr([]) == (None, None)
    assert mean_and_stderr([0.25]) == (0.25, None)


@pytest.mark.parametrize(
    ("freedom", "expected"),
    [(1, 12.7062047364), (2, 4.3026527299), (5, 2.5705818366), (30, 2.0422724563), (1000, 1.9623390808)],
)
def test_quantiles_of_students_t_as_tables_have_them(freedom: int, expected: float) -> None:
    assert t_quantile(0.975, freedom) == pytest.approx(expected, rel=1e-9)
    assert t_quantile(0.025, freedom) == pytest.approx(-expected, rel=1e-9)


@given(st.floats(-6, 6), st.integers(1, 60))
def test_students_t_is_the_integral_of_its_density(t: float, freedom: int) -> None:
    front = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)
    steps = 2000
    width = abs(t) / steps
    middles = ((step + 0.5) * width for step in range(steps))
    area = width * math.fsum(front * (1 + x * x / freedom) ** (-(freedom + 1) / 2) for x in middles)
    assert t_cdf(t, freedom) == pytest.approx(0.5 + math.copysign(area, t), abs=1e-5)


@given(st.floats(0.001, 0.999), st.integers(1, 200))
def test_the_quantile_inverts_the_distribution(share: float, freedom: int) -> None:
    assert t_cdf(t_quantile(share, freedom), freedom) == pytest.approx(share, abs=1e-9)


def test_students_interval_of_known_values() -> None:
    interval = t_interval([1.0, 2.0, 3.0, 4.0, 5.0])
    assert interval is not None
    reach = 2.7764451052 * math.sqrt(2.5 / 5)
    assert [interval.low, interval.high] == pytest.approx([3 - reach, 3 + reach])


@given(REWARDS, st.integers(0, 5))
def test_the_bootstrap_is_the_naive_one(values: list[float], seed: int) -> None:
    import random

    rng = random.Random(seed)
    means = sorted(math.fsum(rng.choices(values, k=len(values))) / len(values) for _ in range(300))
    interval = bootstrap_interval(values, 0.9, resamples=300, seed=seed)
    assert interval is not None
    cuts = statistics.quantiles(means, n=20, method="inclusive")
    assert interval.low == pytest.approx(cuts[0], abs=1e-9)
    assert interval.high == pytest.approx(cuts[-1], abs=1e-9)
    assert min(values) - 1e-9 <= interval.low <= interval.high <= max(values) + 1e-9


def test_intervals_need_two_values() -> None:
    for values in ([], [0.5]):
        assert t_interval(values) is None
        assert bootstrap_interval(values) is None


def test_both_intervals_agree_on_many_values() -> None:
    values = [math.sin(number) for number in range(2000)]
    student, drawn = t_interval(values), bootstrap_interval(values, resamples=2000)
    assert student is not None
    assert drawn is not None
    assert drawn.low == pytest.approx(student.low, abs=0.004)
    assert drawn.high == pytest.approx(student.high, abs=0.004)


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=20), st.floats(0, 1))
def test_quantiles_lie_between_neighbours(values: list[float], share: float) -> None:
    ordered = sorted(values)
    value = quantile(ordered, share)
    place = share * (len(ordered) - 1)
    assert ordered[math.floor(place)] <= value <= ordered[math.ceil(place)]
