"""The committed days: what the generator makes, consistent in themselves, fit to grade."""

from __future__ import annotations

import datetime as dt
import json
import re
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path


def test_ids_are_those_of_the_splits(rows: list[dict[str, Any]]) -> None:
    expected = [f"train-{number:05d}" for number in range(2000)] + [f"eval-{number:03d}" for number in range(200)]
    assert [row["id"] for row in rows] == expected


def test_the_generator_makes_the_committed_rows(generate: Any, bundle_path: Path, rows: list[dict[str, Any]]) -> None:
    lines = (bundle_path / "tasks" / "day.seeds.jsonl").read_text(encoding="utf-8").splitlines()
    for position in (*range(0, 2000, 97), *range(2000, 2200, 19)):
        split, number = rows[position]["id"].split("-")
        assert json.dumps(generate.make_row(split, int(number)), separators=(",", ":")) == lines[position]


@pytest.mark.parametrize("split", ["train", "eval"])
def test_rows_are_consistent(market: Any, generate: Any, rows: list[dict[str, Any]], split: str) -> None:
    for row in rows:
        if not row["id"].startswith(split):
            continue
        assert set(row) == {"id", "day", "situation"}
        fields = row["day"]
        day = market.Day.from_fields(fields)  # power, size and unit agree, s_end_min <= s0 <= soc_levels
        date = dt.date.fromisoformat(fields["date"])
        assert generate.FIRST_DAY <= date <= generate.LAST_DAY
        assert (date.toordinal() % generate.EVAL_EVERY == 0) == (split == "eval")
        assert fields["season"] == generate.season_of(date)
        name, hours, k_dis, k_ch, cycles = next(kind for kind in generate.ARCHETYPES if kind[0] == fields["archetype"])
        assert name.startswith(f"{hours}h-")
        assert (day.k_dis, day.k_ch, day.soc_levels) == (k_dis, k_ch, hours * k_dis)
        assert day.cycle_cap == cycles * day.soc_levels
        assert 80 <= day.eta <= 90
        assert 0 <= day.c_deg <= 800
        assert fields["neg_hours"] == sum(price < 0 for price in fields["prices"])
        assert fields["spike"] == (max(fields["prices"]) >= generate.SPIKE)
        assert -50 <= min(fields["prices"]) <= max(fields["prices"]) <= 5000


def test_every_optimum_is_clearly_better_than_idling(market: Any, generate: Any, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        day = market.Day.from_fields(row["day"])
        assert market.dollars(day, market.best_worth(day)) >= generate.LEAST_GAIN * row["day"]["energy_mwh"]


def test_the_situation_tells_the_day(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        fields, text = row["day"], row["situation"]
        told = re.findall(r"(\d+): (-?\d+\.\d\d)", text)
        assert [float(price) for _, price in told] == fields["prices"]
        assert [int(hour) for hour, _ in told] == list(range(24))
        for part in (
            fields["date"],
            f"sells at most {fields['k_dis']} and charges at most {fields['k_ch']} units an hour",
            f"holds at most {fields['soc_levels']} units",
            f"efficiency {fields['eta']:.2f}",
            f"at most {fields['cycle_cap_units']} units sold",
            f"starts with {fields['s0']} units and must end with at least {fields['s_end_min']}.",
        ):
            assert part in text


def test_the_days_vary(rows: list[dict[str, Any]], generate: Any) -> None:
    days = [row["day"] for row in rows]
    assert {day["season"] for day in days} == {"winter", "spring", "summer", "autumn"}
    assert {day["archetype"] for day in days} == {kind[0] for kind in generate.ARCHETYPES}
    assert {day["settlement_point"] for day in days} == {point[0] for point in generate.POINTS}
    assert len({json.dumps(day["prices"]) for day in days}) == len(days)
    assert 0.05 < sum(day["neg_hours"] > 0 for day in days) / len(days) < 0.2
    assert 0.03 < sum(day["spike"] for day in days) / len(days) < 0.15


def test_prices_have_the_shape_of_their_season(rows: list[dict[str, Any]]) -> None:
    def mean(season: str, hours: range) -> float:
        prices: list[list[float]] = [
            sorted(row["day"]["prices"][hour] for row in rows if row["day"]["season"] == season) for hour in hours
        ]
        return sum(of_hour[len(of_hour) // 2] for of_hour in prices) / len(prices)

    for season in ("winter", "spring", "autumn"):  # two peaks with a dip between them
        assert mean(season, range(6, 9)) > 1.2 * mean(season, range(10, 14))
        assert mean(season, range(17, 20)) > 1.2 * mean(season, range(10, 14))
    assert mean("summer", range(16, 19)) > 2 * mean("summer", range(2, 9))
