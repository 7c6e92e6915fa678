"""Rows and the scores they make."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from agent_env.episode.scoring import AGGREGATORS, BadRows, aggregate, check_rows
from hypothesis import given
from hypothesis import strategies as st

fields: dict[str, Any] = {
    "id": st.text(max_size=3),
    "score": st.one_of(st.none(), st.floats(0, 1), st.integers(0, 1)),
    "weight": st.one_of(st.none(), st.floats(-5, 5), st.integers(-5, 5)),
    "skipped": st.booleans(),
    "extra": st.integers(),
}
result: dict[str, Any] = {"result": st.booleans()}
rows: st.SearchStrategy[list[dict[str, Any]]] = st.lists(st.fixed_dictionaries(result, optional=fields), max_size=6)


def oracle(given_rows: list[dict[str, Any]], aggregator: str) -> float:
    """The definition, in exact numbers."""
    counted = [row for row in given_rows if not row.get("skipped")]
    if not counted:
        return 0.0
    results = [row["result"] for row in counted]
    if aggregator == "all_pass":
        return 0.0 if False in results else 1.0
    if aggregator == "any_pass":
        return 1.0 if True in results else 0.0
    pairs: list[tuple[Fraction, Fraction]] = []
    for row in counted:
        score = row.get("score")
        weight = row.get("weight")
        pairs.append(
            (
                Fraction(int(row["result"])) if score is None else Fraction(score),
                Fraction(1) if weight is None else Fraction(weight),
            )
        )
    possible = sum((w for _, w in pairs if w > 0), Fraction(0))
    if possible == 0:
        return 0.0
    gained = sum((s * w for s, w in pairs if w > 0), Fraction(0))
    lost = sum(((1 - s) * abs(w) for s, w in pairs if w < 0), Fraction(0))
    return float(min(Fraction(1), max(Fraction(0), (gained - lost) / possible)))


@given(rows, st.sampled_from(AGGREGATORS))
def test_scores_follow_the_definition(given_rows: list[dict[str, Any]], aggregator: str) -> None:
    score = aggregate(check_rows(given_rows), aggregator)
    assert 0.0 <= score <= 1.0
    assert math.isclose(score, oracle(given_rows, aggregator), abs_tol=1e-9)


@given(rows)
def test_checking_keeps_rows_and_their_extra_keys(given_rows: list[dict[str, Any]]) -> None:
    checked = check_rows(given_rows)
    for before, after in zip(given_rows, checked, strict=True):
        assert after.items() <= before.items()
        assert {key for key in before if key not in after} <= {"score", "weight"}


NONSENSE: list[tuple[Any, str]] = [
    (None, "expected a list of rows, got NoneType"),
    (0.5, "expected a list of rows, got float"),
    (True, "expected a list of rows, got bool"),
    ({"result": True}, "expected a list of rows, got dict"),
    ([True], "row 0: expected an object"),
    ([{}], "row 0: 'result' must be true or false"),
    ([{"result": 1}], "'result' must be true or false, got int 1"),
    ([{"result": None}], "'result' must be true or false"),
    ([{"result": "yes"}], "'result' must be true or false"),
    ([{"id": "profit", "result": True, "score": math.nan}], "row 'profit': 'score' must be a finite number"),
    ([{"criterion": "profit", "result": True, "score": 1.5}], "row 'profit': 'score' must be in 0..1, got 1.5"),
    ([{"result": True, "score": True}], "'score' must be a finite number, got bool"),
    ([{"result": True, "score": "1"}], "'score' must be a finite number, got str"),
    ([{"result": True, "weight": math.inf}], "'weight' must be a finite number"),
    ([{"result": True}, {"result": False, "weight": "2"}], "row 1: 'weight'"),
]


@pytest.mark.parametrize(("value", "words"), NONSENSE)
def test_nonsense_is_refused_with_words(value: object, words: str) -> None:
    with pytest.raises(BadRows) as error:
        check_rows(value)
    assert words in str(error.value)


def test_weights_that_overflow_are_refused() -> None:
    huge = [{"result": True, "weight": 1.7e308}, {"result": False, "weight": 1.7e308}]
    with pytest.raises(BadRows, match="too large"):
        aggregate(check_rows(huge), "weighted_average")


def test_an_unknown_aggregator_is_refused() -> None:
    with pytest.raises(ValueError, match="all_pass, any_pass, weighted_average"):
        aggregate([], "mean")
