"""Make the days of this bundle: ``python generate.py`` writes ``tasks/day.seeds.jsonl``.

The prices are invented, in the shape of a day-ahead market with much wind and sun. Every row comes from a random
generator of its own, seeded by the row's name, and only from sums, products and quotients: any Python from 3.11 on
makes the same file, and a single row can be made without the others.
"""

from __future__ import annotations

import argparse
import datetime as dt
import importlib.util
import json
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).resolve().parent
ROWS = HERE / "tasks" / "day.seeds.jsonl"
SPLITS = {"train": 2000, "eval": 200}
DIGITS = {"train": 5, "eval": 3}
FIRST_DAY = dt.date(2014, 1, 2)
LAST_DAY = dt.date(2024, 12, 31)
EVAL_EVERY = 11  # every 11th date of the calendar is kept for the eval split
LEAST_GAIN = 3.0  # dollars that the best schedule must earn for each MWh of the battery's size
SPIKE = 250.0  # dollars per MWh from which an hour counts as a spike


def _market() -> Any:
    spec = importlib.util.spec_from_file_location("gridsim_market", HERE / "envs" / "gridsim" / "market.py")
    if spec is None or spec.loader is None:
        raise ImportError("envs/gridsim/market.py is missing")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


market = _market()

# Price of each hour as a multiple of the day's level.
SHAPES = {
    "winter": [
        *(0.86, 0.84, 0.84, 0.86, 0.93, 1.12, 1.42, 1.52, 1.24, 1.04, 0.96, 0.91),
        *(0.88, 0.86, 0.86, 0.90, 1.02, 1.28, 1.46, 1.40, 1.24, 1.10, 0.98, 0.90),
    ],
    "spring": [
        *(0.78, 0.74, 0.72, 0.73, 0.80, 0.98, 1.18, 1.14, 1.02, 0.96, 0.94, 0.95),
        *(0.97, 1.00, 1.02, 1.05, 1.10, 1.20, 1.36, 1.56, 1.50, 1.20, 0.98, 0.86),
    ],
    "summer": [
        *(0.72, 0.66, 0.63, 0.61, 0.63, 0.68, 0.74, 0.76, 0.80, 0.88, 0.98, 1.08),
        *(1.20, 1.34, 1.52, 1.74, 1.98, 2.06, 1.94, 1.78, 1.42, 1.12, 0.94, 0.82),
    ],
    "autumn": [
        *(0.80, 0.77, 0.75, 0.77, 0.84, 1.02, 1.26, 1.24, 1.06, 0.96, 0.93, 0.94),
        *(0.97, 1.02, 1.08, 1.16, 1.26, 1.42, 1.58, 1.48, 1.22, 1.04, 0.92, 0.84),
    ],
}
SUN = [*[0.0] * 6, 0.05, 0.25, 0.55, 0.80, 0.94, 1.0, 1.0, 0.98, 0.92, 0.80, 0.58, 0.30, 0.08, *[0.0] * 5]
SUN_BY_SEASON = {"winter": 0.6, "spring": 1.0, "summer": 0.8, "autumn": 0.8}
WIND = [
    *(1.0, 1.0, 1.0, 1.0, 1.0, 0.9, 0.75, 0.6, 0.5, 0.42, 0.36, 0.34),
    *(0.34, 0.36, 0.4, 0.46, 0.52, 0.56, 0.6, 0.68, 0.78, 0.88, 0.95, 1.0),
]
WIND_BY_SEASON = {"winter": 0.8, "spring": 1.0, "summer": 0.5, "autumn": 0.8}
SEASONS = {12: "winter", 1: "winter", 2: "winter", 3: "spring", 4: "spring", 5: "spring"}
SEASONS |= {6: "summer", 7: "summer", 8: "summer", 9: "summer", 10: "autumn", 11: "autumn"}

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

# Invented trading points: (name, how much wind presses on its price, how much sun does).
POINTS = [
    ("HUB_PRAIRIE", 0.5, 0.5),
    ("HUB_GULF", 0.2, 0.4),
    ("HUB_MESA", 1.0, 0.9),
    ("HUB_HILLS", 0.5, 0.6),
    ("HUB_ALL", 0.5, 0.6),
    ("ZONE_HARBOR", 0.2, 0.3),
    ("ZONE_LAKES", 0.4, 0.5),
    ("ZONE_PLATEAU", 0.9, 0.8),
    ("ZONE_CANYON", 1.0, 1.0),
    ("ZONE_VALLEY", 0.7, 0.7),
    ("ZONE_CAPITAL", 0.4, 0.6),
    ("ZONE_FOREST", 0.3, 0.4),
]

# Kinds of battery: (name, hours of energy at full power, most units sold and charged an hour, cycles a day).
ARCHETYPES = [
    ("1h-a", 1, 4, 4, 2.0),
    ("1h-b", 1, 4, 2, 1.5),
    ("1h-c", 1, 3, 3, 2.0),
    ("1h-d", 1, 2, 2, 1.0),
    ("2h-a", 2, 3, 3, 2.0),
    ("2h-b", 2, 4, 4, 1.0),
    ("2h-c", 2, 2, 2, 1.5),
    ("2h-d", 2, 3, 2, 1.0),
    ("2h-e", 2, 4, 3, 1.5),
    ("4h-a", 4, 2, 2, 1.0),
    ("4h-b", 4, 3, 3, 1.0),
    ("4h-c", 4, 2, 2, 1.5),
    ("4h-d", 4, 4, 4, 1.0),
    ("4h-e", 4, 3, 2, 2.0),
]
UNITS_MWH = [2.5, 5.0, 7.5, 10.0, 12.5, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0]
ETAS = [0.80, 0.82, 0.84, 0.85, 0.86, 0.88, 0.90]
WEAR = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0]


class _Dice:
    """A random generator that uses nothing but ``random()``, whose values every Python version keeps."""

    def __init__(self, name: str) -> None:
        self._random = random.Random(f"gridsim/1/{name}").random

    def below(self, count: int) -> int:
        return int(self._random() * count)

    def between(self, low: float, high: float) -> float:
        return low + (high - low) * self._random()

    def bell(self, spread: float) -> float:
        """About normal around 0, never more than six spreads away."""
        total = 0.0
        for _ in range(12):  # not `sum`: Python 3.12 rounds it differently
            total += self._random()
        return (total - 6.0) * spread

    def chance(self, probability: float) -> bool:
        return self._random() < probability

    def tail(self, low: float, high: float) -> float:
        """Mostly near ``low``, now and then up to ``high``."""
        return low + (high - low) * 0.03 * (1.0 / (self._random() + 0.03) - 1.0 / 1.03) / 0.9709


def season_of(date: dt.date) -> str:
    """The market's season of a date."""
    return SEASONS[date.month]


def _prices(dice: _Dice, date: dt.date, wind_share: float, sun_share: float) -> list[float]:
    season = season_of(date)
    years = (date - FIRST_DAY).days / 365.25
    level = dice.between(17.0, 34.0) + dice.tail(0.0, 45.0)
    weekend = date.weekday() >= 5
    flat = 0.72 if weekend else 1.0  # a weekend has lower and flatter peaks
    wind = max(0.0, 0.38 + dice.bell(0.34)) * WIND_BY_SEASON[season] * wind_share
    sun = max(0.0, 0.55 + dice.bell(0.2)) * SUN_BY_SEASON[season] * sun_share * min(1.0, 0.12 + 0.1 * years)
    shift = dice.below(3) - 1  # weather moves the peaks by an hour
    drift, prices = 0.0, []
    for hour in range(market.HOURS):
        shape = SHAPES[season][(hour + shift) % market.HOURS]
        drift = 0.72 * drift + dice.bell(0.055)
        multiple = 1.0 + (shape - 1.0) * flat + drift + dice.bell(0.045)
        multiple -= 1.45 * wind * WIND[hour] + 1.45 * sun * SUN[hour]
        price = level * multiple
        if multiple < 0.0:  # beneath zero only what is paid for running wind and sun counts
            price = max(-35.0, price * 0.9)
        prices.append(price)
    if dice.chance({"winter": 0.14, "spring": 0.09, "summer": 0.30, "autumn": 0.11}[season] * flat):
        _spike(dice, prices, season)
    return [round(max(-50.0, min(5000.0, price)) * 100) / 100 for price in prices]


def _spike(dice: _Dice, prices: list[float], season: str) -> None:
    """Scarcity: the dearest hour of the morning or evening peak soars, its neighbours follow."""
    morning = dice.chance({"winter": 0.5, "spring": 0.2, "summer": 0.0, "autumn": 0.25}[season])
    hours = range(5, 10) if morning else range(15, 22)
    top = max(hours, key=lambda hour: prices[hour])
    height = dice.tail(60.0, 2600.0)
    for hour in hours:
        distance = abs(hour - top)
        if distance <= 2:
            prices[hour] += height * (1.0, 0.42, 0.12)[distance] * dice.between(0.8, 1.2)


def _date(dice: _Dice, split: str) -> dt.date:
    """Train and eval share no date."""
    while True:
        date = FIRST_DAY + dt.timedelta(days=dice.below((LAST_DAY - FIRST_DAY).days + 1))
        if (date.toordinal() % EVAL_EVERY == 0) == (split == "eval"):
            return date


def _candidate(dice: _Dice, split: str) -> dict[str, Any]:
    date = _date(dice, split)
    point, wind_share, sun_share = POINTS[dice.below(len(POINTS))]
    name, hours, k_dis, k_ch, cycles = ARCHETYPES[dice.below(len(ARCHETYPES))]
    unit = UNITS_MWH[dice.below(len(UNITS_MWH))]
    levels = hours * k_dis
    s0 = dice.below(levels // 2 + 1) if dice.chance(0.5) else 0
    return {
        "date": date.isoformat(),
        "settlement_point": point,
        "archetype": name,
        "season": season_of(date),
        "p_dis_mw": k_dis * unit,
        "p_ch_mw": k_ch * unit,
        "energy_mwh": levels * unit,
        "unit_mwh": unit,
        "k_dis": k_dis,
        "k_ch": k_ch,
        "soc_levels": levels,
        "eta": ETAS[dice.below(len(ETAS))],
        "c_deg": WEAR[dice.below(len(WEAR))],
        "cycle_cap_units": int(cycles * levels),
        "s0": s0,
        "s_end_min": dice.below(s0 + 1),
        "prices": _prices(dice, date, wind_share, sun_share),
    }


def situation(fields: dict[str, Any]) -> str:
    """What the model reads of a day."""
    date = dt.date.fromisoformat(fields["date"])
    text = (
        f"{fields['settlement_point']}, {WEEKDAYS[date.weekday()]} {date.isoformat()}.\n"
        f"Battery: sells at most {fields['k_dis']} and charges at most {fields['k_ch']} units an hour, holds at most "
        f"{fields['soc_levels']} units; 1 unit = {fields['unit_mwh']:g} MWh.\n"
        f"Round-trip efficiency {fields['eta']:.2f}; wear ${fields['c_deg']:.2f} per MWh sold; at most "
        f"{fields['cycle_cap_units']} units sold in the day.\n"
        f"The day starts with {fields['s0']} units and must end with at least {fields['s_end_min']}.\n"
        "Day-ahead prices in $/MWh, hour: price"
    )
    for hour, price in enumerate(fields["prices"]):
        text += f"{'  ' if hour % 6 else chr(10)}{hour}: {price:.2f}"
    return text


def make_row(split: str, number: int) -> dict[str, Any]:
    """One row of the file: the first candidate whose best schedule is clearly better than idling."""
    name = f"{split}-{number:0{DIGITS[split]}d}"
    attempt = 0
    while True:
        fields = _candidate(_Dice(f"{name}/{attempt}"), split)
        day = market.Day.from_fields(fields)
        if market.dollars(day, market.best_worth(day)) >= LEAST_GAIN * fields["energy_mwh"]:
            break
        attempt += 1
    prices = fields["prices"]
    fields["neg_hours"] = len([price for price in prices if price < 0])
    fields["spike"] = max(prices) >= SPIKE
    return {"id": name, "day": fields, "situation": situation(fields)}


def lines() -> Iterator[str]:
    """The file, line by line."""
    for split, count in SPLITS.items():
        for number in range(count):
            yield json.dumps(make_row(split, number), separators=(",", ":")) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the days of the GridSim bundle.")
    parser.add_argument("--out", type=Path, default=ROWS, help="file to write (default: tasks/day.seeds.jsonl)")
    out = parser.parse_args().out
    with out.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(lines())
    print(f"wrote {sum(SPLITS.values())} days to {out}")


if __name__ == "__main__":
    main()
