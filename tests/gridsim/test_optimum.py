"""The optimum against brute force, and the rules against a second statement of them in fractions of a dollar."""

from __future__ import annotations

import itertools
import random
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Sequence

CHECKED = settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])


@st.composite
def small_days(draw: st.DrawFn) -> dict[str, Any]:
    """Fields of days short enough to try every schedule."""
    levels = draw(st.integers(1, 4))
    s0 = draw(st.integers(0, levels))
    return {
        "prices": tuple(draw(st.lists(st.integers(-6000, 30000), min_size=1, max_size=5))),
        "unit": draw(st.sampled_from([250, 1000, 7500])),
        "eta": draw(st.integers(50, 100)),
        "c_deg": draw(st.sampled_from([0, 100, 800])),
        "k_dis": draw(st.integers(1, 2)),
        "k_ch": draw(st.integers(1, 2)),
        "soc_levels": levels,
        "cycle_cap": draw(st.integers(0, 5)),
        "s0": s0,
        "s_end_min": draw(st.integers(0, s0)),
    }


def profit(fields: dict[str, Any], plan: Sequence[int]) -> Fraction | None:
    """Profit in dollars by the rules as the bundle's README states them; `None` for an infeasible plan."""
    unit, eta = Fraction(fields["unit"], 100), Fraction(fields["eta"], 100)
    charge, money = fields["s0"], Fraction(0)
    for q, cents in zip(plan, fields["prices"], strict=True):
        price = Fraction(cents, 100)
        if q > fields["k_dis"] or q < -fields["k_ch"]:
            return None
        if q > 0:
            money += q * unit * (price - Fraction(fields["c_deg"], 100))
        else:
            money -= -q * unit / eta * price
        charge -= q
        if not 0 <= charge <= fields["soc_levels"]:
            return None
    if charge < fields["s_end_min"] or sum(q for q in plan if q > 0) > fields["cycle_cap"]:
        return None
    return money


def in_dollars(fields: dict[str, Any], worth: int) -> Fraction:
    return Fraction(worth * fields["unit"], 10_000 * fields["eta"])


@CHECKED
@given(fields=small_days())
def test_the_optimum_is_that_of_brute_force(market: Any, fields: dict[str, Any]) -> None:
    day = market.Day(**fields)
    units = range(-fields["k_ch"], fields["k_dis"] + 1)
    profits = [profit(fields, plan) for plan in itertools.product(units, repeat=len(fields["prices"]))]
    assert in_dollars(fields, market.best_worth(day)) == max(value for value in profits if value is not None)


@CHECKED
@given(fields=small_days())
def test_the_best_plan_earns_the_optimum(market: Any, fields: dict[str, Any]) -> None:
    day = market.Day(**fields)
    plan = market.best_plan(day)
    assert profit(fields, plan) == in_dollars(fields, market.best_worth(day))


@CHECKED
@given(fields=small_days(), data=st.data())
def test_play_follows_the_rules(market: Any, fields: dict[str, Any], data: st.DataObject) -> None:
    plan = data.draw(st.lists(st.integers(-3, 3), min_size=len(fields["prices"]), max_size=len(fields["prices"])))
    outcome = market.play(market.Day(**fields), plan)
    expected = profit(fields, plan)
    assert (outcome.reason is None) == (expected is not None)
    if expected is None:
        assert outcome.worth == 0
    else:
        assert in_dollars(fields, outcome.worth) == expected
        assert outcome.soc == tuple(fields["s0"] - sold for sold in itertools.accumulate(plan))


def test_no_random_feasible_plan_of_a_whole_day_beats_the_optimum(market: Any, eval_rows: list[dict[str, Any]]) -> None:
    rng = random.Random(5)
    tried = 0
    for row in eval_rows[:40]:
        day = market.Day.from_fields(row["day"])
        best = market.best_worth(day)
        start = market.best_plan(day)
        for _ in range(50):
            plan = list(start)  # neighbours of the optimum are the hardest to beat
            for _ in range(rng.randint(1, 6)):
                plan[rng.randrange(24)] += rng.choice((-1, 1))
            outcome = market.play(day, plan)
            if outcome.reason is None:
                tried += 1
                assert outcome.worth <= best
                assert market.score(outcome.worth, best) <= 1.0
    assert tried > 100


def test_an_unused_cap_changes_nothing(market: Any, eval_rows: list[dict[str, Any]]) -> None:
    for row in eval_rows[:20]:
        fields = row["day"] | {"cycle_cap_units": 24 * row["day"]["k_dis"]}
        free = market.Day.from_fields(fields)
        sold = sum(units for units in market.best_plan(free) if units > 0)
        capped = market.Day.from_fields(fields | {"cycle_cap_units": sold})
        assert market.best_worth(capped) == market.best_worth(free)
