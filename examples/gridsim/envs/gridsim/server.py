"""GridSim: a grid battery for one day in a day-ahead market."""

from __future__ import annotations

from typing import Annotated, Any

from agent_env.env import Env, ExtensionError, ToolError, add_data, extension, get_data, reset_data, tool
from market import Day, DayError, Outcome, PlanError, best_worth, dollars, play, read_plan, score

CHECKS = 5

Plan = Annotated[
    list[int],
    "24 integers, one for each hour from 0 to 23: positive = units sold, negative = units charged, 0 = idle",
]


class GridSim(Env, name="gridsim"):
    """A grid battery that trades one day in a day-ahead market."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._fields: dict[str, Any] = {}
        self._day: Day | None = None
        self._best = 0
        self._checks_used = 0
        self._plan: list[int] | None = None
        self._outcome: Outcome | None = None

    # -- what the model may do ----------------------------------------------------------------------------------------

    @tool
    async def read_day(self) -> dict[str, Any]:
        """The day's 24 hourly prices in $/MWh and the limits of the battery.

        p_dis_mw, p_ch_mw, energy_mwh: power and size; unit_mwh: MWh in a unit; k_dis, k_ch: most units sold and
        charged in an hour; soc_levels: most units held; eta: round-trip efficiency; c_deg: wear in $ per MWh sold;
        cycle_cap_units: most units sold in the day; s0: units held at the start; s_end_min: least units at the end.
        """
        self._open_day()
        return {**self._fields, "checks_left": CHECKS - self._checks_used}

    @tool
    async def check_schedule(self, plan: Plan) -> dict[str, Any]:
        """Try a schedule without submitting it: whether it keeps every limit, its profit and the charge by hour."""
        day = self._open_day()
        if self._checks_used >= CHECKS:
            raise ToolError(f"all {CHECKS} checks of this day are used; submit a schedule")
        outcome = play(day, _plan(plan))
        self._checks_used += 1
        return {**_told(day, outcome), "charge": list(outcome.soc), "checks_left": CHECKS - self._checks_used}

    @tool
    async def submit_schedule(self, plan: Plan) -> dict[str, Any]:
        """Submit the day's schedule. The first submission is final; one that breaks a limit earns nothing."""
        day = self._open_day()
        self._plan = _plan(plan)
        self._outcome = play(day, self._plan)
        return {"final": True, **_told(day, self._outcome)}

    def _open_day(self) -> Day:
        if self._day is None:
            raise ToolError("no day is loaded")
        if self._plan is not None:
            raise ToolError("the day is over: its schedule was submitted and is final")
        return self._day

    # -- loading and grading ------------------------------------------------------------------------------------------

    @extension("urn:gridsim:load-day/v1")
    async def load_day(self, day: dict[str, Any]) -> dict[str, Any]:
        """Start the day whose fields are given; what was played before is forgotten."""
        try:
            loaded = Day.from_fields(day)
            best = best_worth(loaded)
            score(0, best)  # refuses a day that cannot be graded
        except DayError as error:
            raise ExtensionError(str(error), code="invalid_day") from None
        self._clear()
        self._fields, self._day, self._best = dict(day), loaded, best
        return {"date": day.get("date"), "settlement_point": day.get("settlement_point")}

    @reset_data
    async def reset(self) -> None:
        """Forget the day."""
        self._clear()

    @add_data
    async def add(self, parts: list[dict[str, Any]]) -> None:
        """Load a day from one data part ``{"day": {...}}``."""
        days = [part["data"]["day"] for part in parts if part.get("kind") == "data" and "day" in part.get("data", {})]
        if len(parts) != 1 or len(days) != 1:
            raise ValueError('expected one data part {"day": {...}}')
        await self.load_day(days[0])

    @get_data
    async def grade(self) -> list[dict[str, Any]]:
        """What was submitted and what it is worth."""
        data: dict[str, Any] = {"loaded": self._day is not None, "submitted": self._plan is not None}
        if self._day is not None:
            data |= {"checks_used": self._checks_used, "best_profit": dollars(self._day, self._best), "score": 0.0}
        if self._day is not None and self._outcome is not None:
            data |= {"plan": self._plan, **_told(self._day, self._outcome)}
            if self._outcome.reason is None:
                data["score"] = score(self._outcome.worth, self._best)
        return [{"kind": "data", "data": data}]


def _plan(plan: object) -> list[int]:
    try:
        return read_plan(plan)
    except PlanError as error:
        raise ToolError(str(error)) from None


def _told(day: Day, outcome: Outcome) -> dict[str, Any]:
    if outcome.reason is not None:
        return {"feasible": False, "reason": outcome.reason}
    return {"feasible": True, "profit": dollars(day, outcome.worth)}


if __name__ == "__main__":
    GridSim.serve()
