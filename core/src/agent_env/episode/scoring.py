"""Rows of a verifier and the score they make."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

AGGREGATORS = ("all_pass", "any_pass", "weighted_average")


class BadRows(ValueError):
    """What a verifier returned is no list of verification rows."""


def check_rows(value: object) -> list[dict[str, Any]]:
    """The rows of a verifier's return value.

    Raises:
        BadRows: it is no list of rows. Nonsense is never a score of 0.
    """
    if not isinstance(value, list):
        raise BadRows(f"expected a list of rows, got {_short(value)}")
    rows: list[dict[str, Any]] = []
    for index, item in enumerate(cast("list[object]", value)):
        if not isinstance(item, Mapping):
            raise BadRows(f"row {index}: expected an object, got {_short(item)}")
        row = dict(cast("Mapping[str, Any]", item))
        name = row.get("id", row.get("criterion", index))
        if not row.get("skipped"):
            if not isinstance(row.get("result"), bool):
                raise BadRows(f"row {name!r}: 'result' must be true or false, got {_short(row.get('result'))}")
            _number(row, "score", name, low=0.0, high=1.0)
            _number(row, "weight", name)
        rows.append(row)
    return rows


def _number(row: dict[str, Any], key: str, name: object, *, low: float = -math.inf, high: float = math.inf) -> None:
    value = row.get(key)
    if value is None:
        row.pop(key, None)  # null means not given
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise BadRows(f"row {name!r}: {key!r} must be a finite number, got {_short(value)}")
    if not low <= value <= high:
        raise BadRows(f"row {name!r}: {key!r} must be in {low:g}..{high:g}, got {value}")


def aggregate(rows: Sequence[Mapping[str, Any]], aggregator: str) -> float:
    """The score of checked rows. Skipped rows do not count; no rows make 0.

    Raises:
        ValueError: an unknown aggregator.
    """
    if aggregator not in AGGREGATORS:
        raise ValueError(f"unknown score aggregator {aggregator!r}; expected one of {', '.join(AGGREGATORS)}")
    counted = [row for row in rows if not row.get("skipped")]
    if not counted:
        return 0.0
    if aggregator == "all_pass":
        return float(all(row["result"] is True for row in counted))
    if aggregator == "any_pass":
        return float(any(row["result"] is True for row in counted))
    gained = possible = penalty = 0.0
    for row in counted:
        score = float(row.get("score", row["result"]))
        weight = float(row.get("weight", 1.0))
        if weight > 0:
            gained += score * weight
            possible += weight
        elif weight < 0:
            penalty += (1.0 - score) * -weight
    if possible == 0:
        return 0.0
    if not math.isfinite(possible + penalty):
        raise BadRows("the weights of the rows are too large to add up")
    return max(0.0, min(1.0, (gained - penalty) / possible))


def _short(value: object) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 80 else text[:77] + '...'}"
