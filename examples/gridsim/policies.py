"""Stand-in models that play this bundle in a rehearsal.

A policy is a pure function of the conversation: ``reply(messages, tools)`` returns the next assistant message, in the
shape of OpenAI's chat completions. All of them are done within four replies.
"""

from __future__ import annotations

import importlib.util
import json
import math
import sys
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Message = dict[str, Any]


def idle(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> Message:
    """Leaves the battery alone."""
    if _replies(messages) == 0:
        return _calls(_call("submit_schedule", plan=[0] * 24))
    return _done("The battery stays idle.", tools)


def greedy(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> Message:
    """Charges in the cheapest hours and sells in the dearest, without looking at what lies between them."""
    turn = _replies(messages)
    if turn == 0:
        return _calls(_call("read_day"))
    if turn == 1:
        return _calls(_call("check_schedule", plan=_greedy_plan(_day(messages))))
    if turn == 2:
        return _calls(_call("submit_schedule", plan=_greedy_plan(_day(messages))))
    return _done("Cheap hours charge, dear hours sell.", tools)


def optimal(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> Message:
    """Submits the best schedule there is."""
    turn = _replies(messages)
    if turn == 0:
        return _calls(_call("read_day"))
    if turn == 1:
        return _calls(_call("submit_schedule", plan=_market.best_plan(_day(messages))))
    return _done("This schedule cannot be beaten.", tools)


def clumsy(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> Message:  # noqa: ARG001
    """Makes the mistakes that models make; which schedule it submits in the end, if any, depends on the day."""
    turn = _replies(messages)
    if turn == 0:
        return _calls(
            _raw_call("check_schedule", '{"plan": [1, 2, '),
            _raw_call("check_schedule", json.dumps([0] * 24)),
            _call("sell_everything", hour=18),
            _call("read_day"),
        )
    day = _day(messages)
    too_much = [0] * 17 + [99] + [0] * 6
    if turn == 1:
        return _calls(
            _call("check_schedule", plan=[0, 1]),
            _call("check_schedule", plan=["none"] * 24),
            _call("check_schedule", plan=too_much),
            _call("check_schedule", schedule=[0] * 24),
        )
    ending = zlib.crc32(json.dumps(day.prices).encode()) % 4
    if turn == 2 and ending < 3:
        plan = (too_much, [0, 1], _losing_plan(day))[ending]
        return _calls(_call("submit_schedule", plan=plan), _call("submit_schedule", plan=[0] * 24))
    return {"role": "assistant", "content": "I hope that this was right."}


# -- schedules --------------------------------------------------------------------------------------------------------


def _greedy_plan(day: Any) -> list[int]:
    """One round: as many of the cheapest hours as fill the battery, as many of the dearest as empty it."""
    hours = sorted(range(len(day.prices)), key=lambda hour: day.prices[hour])
    cheap = set(hours[: math.ceil(day.soc_levels / day.k_ch)])
    dear = set(hours[::-1][: math.ceil(day.soc_levels / day.k_dis)])
    level, left = day.s0, day.cycle_cap
    plan: list[int] = []
    for hour in range(len(day.prices)):
        units = 0
        if hour in dear:
            units = min(day.k_dis, level - day.s_end_min, left)
        elif hour in cheap:
            units = -min(day.k_ch, day.soc_levels - level)
        plan.append(units)
        level -= units
        left -= max(units, 0)
    return plan


def _losing_plan(day: Any) -> list[int]:
    """Charges one unit in the dearest hour that has room for it, and keeps it."""
    plan = [0] * len(day.prices)
    if day.s0 < day.soc_levels:
        plan[max(range(len(plan)), key=lambda hour: day.prices[hour])] = -1
    return plan


# -- conversation -----------------------------------------------------------------------------------------------------


def _replies(messages: Sequence[Mapping[str, Any]]) -> int:
    return len([message for message in messages if message.get("role") == "assistant"])


def _day(messages: Sequence[Mapping[str, Any]]) -> Any:
    """The day that ``read_day`` told.

    Raises:
        LookupError: no tool message tells one.
    """
    for message in messages:
        if message.get("role") != "tool":
            continue
        try:
            fields = json.loads(_text(message.get("content")))
        except ValueError:
            continue
        if isinstance(fields, dict) and "prices" in fields:
            return _market.Day.from_fields(fields)
    raise LookupError("the conversation does not tell the day's prices: did read_day fail?")


def _text(content: object) -> str:
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content)


def _call(tool: str, **arguments: Any) -> Message:
    return _raw_call(tool, json.dumps(arguments))


def _raw_call(tool: str, arguments: str) -> Message:
    return {"type": "function", "function": {"name": tool, "arguments": arguments}}


def _calls(*calls: Message) -> Message:
    return {"role": "assistant", "content": "", "tool_calls": list(calls)}


def _done(text: str, tools: Sequence[Mapping[str, Any]]) -> Message:
    """End the turn with the tool for it where there is one, else with a plain reply."""
    if any(tool.get("function", {}).get("name") == "end_turn" for tool in tools):
        return _calls(_call("end_turn", response=text))
    return {"role": "assistant", "content": text}


def _load_market() -> Any:
    """The env's own market module, by path: this file is loaded from the bundle's folder, not from a package."""
    file = Path(__file__).resolve().parent / "envs" / "gridsim" / "market.py"
    spec = importlib.util.spec_from_file_location("gridsim_market", file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is missing")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_market = _load_market()
