"""Scores, and what is no day and no schedule."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

CHECKED = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
BEST = st.integers(1, 10**12)


@CHECKED
@given(best=BEST)
def test_the_fixed_points_are_exact(market: Any, best: int) -> None:
    assert market.score(0, best) == 0.2
    assert market.score(best, best) == 1.0
    assert market.score(-best, best) == 0.0
    assert market.score(-(10**15), best) == 0.0


@CHECKED
@given(best=BEST, share=st.fractions(-3, 1))
def test_a_score_is_linear_in_profit(market: Any, best: int, share: Fraction) -> None:
    worth = int(share * best)
    score = market.score(worth, best)
    assert 0.0 <= score <= 1.0
    ratio = Fraction(worth, best)
    exact = Fraction(1, 5) + Fraction(4, 5) * ratio if worth >= 0 else Fraction(1, 5) * max(Fraction(0), 1 + ratio)
    assert score == float(exact)
    assert (score < 0.2) == (worth < 0)


@pytest.mark.parametrize("best", [0, -1])
def test_a_day_without_a_gain_cannot_be_graded(market: Any, best: int) -> None:
    with pytest.raises(market.DayError, match="earns nothing"):
        market.score(0, best)


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        (None, "list of 24 integers"),
        ("0" * 24, "list of 24 integers"),
        ([], "this one has 0"),
        ([0] * 23, "this one has 23"),
        ([0] * 25, "this one has 25"),
        ([0] * 23 + [1.0], "hour 23: 1.0 is no integer"),
        ([True] + [0] * 23, "hour 0: True is no integer"),
        (["1"] + [0] * 23, "hour 0: '1' is no integer"),
        ([None] * 24, "hour 0: None is no integer"),
    ],
)
def test_what_is_no_schedule_is_refused_with_words(market: Any, plan: object, why: str) -> None:
    with pytest.raises(market.PlanError, match=why):
        market.read_plan(plan)


FIELDS: dict[str, Any] = {
    "prices": [20.0] * 12 + [90.0] * 12,
    "p_dis_mw": 20.0,
    "p_ch_mw": 10.0,
    "energy_mwh": 40.0,
    "unit_mwh": 10.0,
    "k_dis": 2,
    "k_ch": 1,
    "soc_levels": 4,
    "cycle_cap_units": 4,
    "eta": 0.8,
    "c_deg": 2.0,
    "s0": 1,
    "s_end_min": 1,
}


def schedule(**units: int) -> list[int]:
    """``schedule(h3=-1)`` charges one unit in hour 3."""
    plan = [0] * 24
    for hour, count in units.items():
        plan[int(hour[1:])] = count
    return plan


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        (schedule(h5=3), "hour 5 sells 3 units; at most 2"),
        (schedule(h5=-2), "hour 5 charges 2 units; at most 1"),
        (schedule(h5=2), "hour 5 sells 2 units, but the battery holds 1"),
        (schedule(h0=-1, h1=-1, h2=-1, h3=-1), "hour 3 charges 1 units onto 4; the battery holds at most 4"),
        (schedule(h20=1), "the day ends with 0 units; at least 1"),
        (schedule(h0=-1, h1=-1, h2=-1, h12=2, h13=2, h14=-1, h15=1), "hour 15 brings the day's sales to 5 units"),
        (schedule(h0=10**30), "hour 0 sells"),
    ],
)
def test_an_infeasible_schedule_names_hour_and_limit(market: Any, plan: list[int], why: str) -> None:
    outcome = market.play(market.Day.from_fields(FIELDS), plan)
    assert outcome.reason is not None
    assert why in outcome.reason
    assert outcome.worth == 0


def test_profit_in_dollars(market: Any) -> None:
    day = market.Day.from_fields(FIELDS)
    outcome = market.play(day, schedule(h0=-1, h12=1))
    # 10 MWh sold at 90 less 2 of wear; 12.5 MWh bought at 20
    assert market.dollars(day, outcome.worth) == 10 * 88 - 12.5 * 20


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"prices": [1.0] * 23}, "prices must be a list of 24"),
        ({"prices": None}, "prices must be a list of 24"),
        ({"prices": [1.0] * 23 + ["1"]}, r"prices\[23\] must be a number"),
        ({"prices": [1.0] * 23 + [float("nan")]}, r"prices\[23\] must be a number"),
        ({"prices": [1.0] * 23 + [0.123]}, "at most two decimals"),
        ({"s_end_min": 2}, "s_end_min must be at least 0 and at most 1"),
        ({"s0": 5}, "s0 must be at least 0 and at most 4"),
        ({"eta": 0.0}, "eta must be at least 1"),
        ({"eta": 1.2}, "eta must be at least 1 and at most 100"),
        ({"k_dis": 2.0}, "k_dis must be an integer"),
        ({"k_ch": True}, "k_ch must be an integer"),
        ({"unit_mwh": None}, "unit_mwh must be a number"),
        ({"p_dis_mw": 30.0}, "p_dis_mw is 30.0, but 2 units make 20"),
        ({"energy_mwh": 50.0}, "energy_mwh is 50.0, but 4 units make 40"),
    ],
)
def test_fields_that_make_no_day_are_refused_by_name(market: Any, change: dict[str, Any], why: str) -> None:
    with pytest.raises(market.DayError, match=why):
        market.Day.from_fields(FIELDS | change)


@pytest.mark.parametrize("name", sorted(FIELDS))
def test_a_missing_field_is_named(market: Any, name: str) -> None:
    fields = {key: value for key, value in FIELDS.items() if key != name}
    with pytest.raises(market.DayError, match=name):
        market.Day.from_fields(fields)
