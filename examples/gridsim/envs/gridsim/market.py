"""The market of a GridSim day: the battery's rules, the profit of a schedule, the day's exact optimum and the score.

Everything is counted in whole numbers, so that equal profits are equal and the optimum scores exactly 1. Prices are
cents per MWh, a unit of energy is hundredths of a MWh, efficiency is a percentage. The worth of a schedule is an
integer too: `dollars` turns it into money.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

HOURS = 24
_NEVER = -(10**15)  # the worth of what cannot be done; no real schedule comes near it


class DayError(ValueError):
    """The fields of a day are missing, of the wrong type or contradict each other."""


class PlanError(ValueError):
    """A schedule is not a list of one integer for each hour."""


@dataclass(frozen=True, slots=True)
class Day:
    """A day's prices and the battery that trades on them.

    Attributes:
        prices: cents per MWh, hour by hour.
        unit: hundredths of a MWh in one unit of energy.
        eta: round-trip efficiency in percent; the loss is paid when charging.
        c_deg: wear in cents for each MWh sold.
        k_dis: most units sold in an hour.
        k_ch: most units charged in an hour.
        soc_levels: most units in the battery.
        cycle_cap: most units sold in the day.
        s0: units in the battery before the first hour.
        s_end_min: least units in the battery after the last hour; never more than `s0`.
    """

    prices: tuple[int, ...]
    unit: int
    eta: int
    c_deg: int
    k_dis: int
    k_ch: int
    soc_levels: int
    cycle_cap: int
    s0: int
    s_end_min: int

    def __post_init__(self) -> None:
        for name, low, high in (
            ("unit", 1, None),
            ("eta", 1, 100),
            ("c_deg", 0, None),
            ("k_dis", 1, None),
            ("k_ch", 1, None),
            ("soc_levels", 1, None),
            ("cycle_cap", 0, None),
            ("s0", 0, self.soc_levels),
            ("s_end_min", 0, self.s0),
        ):
            value = getattr(self, name)
            if value < low or (high is not None and value > high):
                most = "" if high is None else f" and at most {high}"
                raise DayError(f"{name} must be at least {low}{most}, not {value}")

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Day:
        """The day of a data row.

        Raises:
            DayError: a field is missing, has the wrong type or contradicts another.
        """
        prices = fields.get("prices")
        if not isinstance(prices, list) or len(prices) != HOURS:
            raise DayError(f"prices must be a list of {HOURS} numbers")
        day = cls(
            prices=tuple(_hundredths(f"prices[{hour}]", price) for hour, price in enumerate(prices)),
            unit=_hundredths("unit_mwh", fields.get("unit_mwh")),
            eta=_hundredths("eta", fields.get("eta")),
            c_deg=_hundredths("c_deg", fields.get("c_deg")),
            k_dis=_whole("k_dis", fields.get("k_dis")),
            k_ch=_whole("k_ch", fields.get("k_ch")),
            soc_levels=_whole("soc_levels", fields.get("soc_levels")),
            cycle_cap=_whole("cycle_cap_units", fields.get("cycle_cap_units")),
            s0=_whole("s0", fields.get("s0")),
            s_end_min=_whole("s_end_min", fields.get("s_end_min")),
        )
        for name, units in (("p_dis_mw", day.k_dis), ("p_ch_mw", day.k_ch), ("energy_mwh", day.soc_levels)):
            if _hundredths(name, fields.get(name)) != units * day.unit:
                raise DayError(f"{name} is {fields[name]}, but {units} units make {units * day.unit / 100:g}")
        return day


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a schedule does.

    Attributes:
        worth: its worth (`dollars`); 0 when it is infeasible.
        soc: units in the battery after each hour, up to the hour that breaks a limit.
        reason: the first limit that it breaks; `None` when it is feasible.
    """

    worth: int
    soc: tuple[int, ...]
    reason: str | None = None


def read_plan(plan: object) -> list[int]:
    """The schedule as integers.

    Raises:
        PlanError: it is no list of `HOURS` integers.
    """
    if not isinstance(plan, list):
        raise PlanError(f"a schedule is a list of {HOURS} integers, not {type(plan).__name__}")
    if len(plan) != HOURS:
        raise PlanError(f"a schedule has {HOURS} integers, one for each hour; this one has {len(plan)}")
    for hour, units in enumerate(plan):
        if type(units) is not int:
            raise PlanError(f"hour {hour}: {units!r} is no integer; use whole units")
    return plan


def play(day: Day, plan: Sequence[int]) -> Outcome:
    """Run a schedule of one integer for each hour of ``day``."""
    level, sold, worth = day.s0, 0, 0
    soc: list[int] = []
    for hour, (units, (sell, buy)) in enumerate(zip(plan, _worths(day), strict=True)):
        reason = None
        if units > day.k_dis:
            reason = f"sells {units} units; at most {day.k_dis} can be sold in an hour"
        elif -units > day.k_ch:
            reason = f"charges {-units} units; at most {day.k_ch} can be charged in an hour"
        elif units > level:
            reason = f"sells {units} units, but the battery holds {level}"
        elif level - units > day.soc_levels:
            reason = f"charges {-units} units onto {level}; the battery holds at most {day.soc_levels}"
        elif units > 0 and sold + units > day.cycle_cap:
            reason = f"brings the day's sales to {sold + units} units; the daily cap is {day.cycle_cap}"
        if reason is not None:
            return Outcome(0, tuple(soc), f"hour {hour} {reason}")
        level -= units
        soc.append(level)
        if units > 0:
            sold += units
            worth += units * sell
        else:
            worth += units * buy
    if level < day.s_end_min:
        return Outcome(0, tuple(soc), f"the day ends with {level} units; at least {day.s_end_min} must be left")
    return Outcome(worth, tuple(soc))


def best_worth(day: Day) -> int:
    """The worth of the best schedule."""
    return _tables(day)[0][day.s0][-1]


def best_plan(day: Day) -> list[int]:
    """The best schedule; among equals, the one that trades least in the earliest hours."""
    tables = _tables(day)
    choices = sorted(range(-day.k_ch, day.k_dis + 1), key=abs)
    level, left = day.s0, day.cycle_cap
    plan: list[int] = []
    for hour, (sell, buy) in enumerate(_worths(day)):
        target = tables[hour][level][day.k_dis + left]
        for units in choices:
            rest = left - max(units, 0)
            if not 0 <= level - units <= day.soc_levels or rest < 0:
                continue
            gain = units * (sell if units > 0 else buy)
            if gain + tables[hour + 1][level - units][day.k_dis + rest] == target:
                plan.append(units)
                level, left = level - units, rest
                break
    return plan


def score(worth: int, best: int) -> float:
    """0.2 for a worth of 0, 1 for the best, linear in between; less than 0.2 (never below 0) for a loss.

    Both bounds come out exactly: the quotient of two integers is rounded once.

    Raises:
        DayError: the best schedule earns nothing, so that there is nothing to measure by.
    """
    if best <= 0:
        raise DayError("the day's best schedule earns nothing; such a day cannot be graded")
    if worth >= 0:
        return (2 * best + 8 * worth) / (10 * best)
    return max(0, 2 * (best + worth)) / (10 * best)


def dollars(day: Day, worth: int) -> float:
    """A worth in dollars, to the cent."""
    return round(worth * day.unit / (10_000 * day.eta), 2)


def _hundredths(name: str, value: object) -> int:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not -1e9 < value < 1e9:
        raise DayError(f"{name} must be a number, not {value!r}")
    hundredths = round(value * 100)
    if hundredths / 100 != value:
        raise DayError(f"{name} is {value!r}; at most two decimals are allowed")
    return hundredths


def _whole(name: str, value: object) -> int:
    if type(value) is not int:
        raise DayError(f"{name} must be an integer, not {value!r}")
    return value


def _worths(day: Day) -> Iterator[tuple[int, int]]:
    """What one unit earns when sold and what it costs when charged, hour by hour, in worth."""
    return (((price - day.c_deg) * day.eta, price * 100) for price in day.prices)


def _tables(day: Day) -> list[list[list[int]]]:
    """Dynamic programming from the last hour to the first.

    ``tables[hour][level][k_dis + left]`` is the most that the hours from ``hour`` on can earn with ``level`` units in
    the battery and ``left`` units that may still be sold. The first ``k_dis`` entries of a row stand for a negative
    ``left``, so that selling is a shift of a row.
    """
    pad, top = day.k_dis, day.soc_levels
    never = [_NEVER] * pad
    width = pad + day.cycle_cap + 1
    rows = [never + [0 if level >= day.s_end_min else _NEVER] * (width - pad) for level in range(top + 1)]
    tables = [rows]
    for sell, buy in reversed(list(_worths(day))):
        later = rows
        rows = []
        for level in range(top + 1):
            ways = [later[level][pad:]]
            for units in range(1, min(day.k_dis, level) + 1):
                gain = units * sell
                ways.append([worth + gain for worth in later[level - units][pad - units : width - units]])
            for units in range(1, min(day.k_ch, top - level) + 1):
                cost = units * buy
                ways.append([worth - cost for worth in later[level + units][pad:]])
            rows.append(never + (list(map(max, *ways)) if len(ways) > 1 else ways[0]))
        tables.append(rows)
    tables.reverse()
    return tables
