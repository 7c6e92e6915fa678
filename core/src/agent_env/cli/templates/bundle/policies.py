"""Models for rehearsals: ``reply(messages, tools)`` returns the next assistant message, as chat completions have it."""

from __future__ import annotations

import json
import random
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def solve(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Makes the fewest moves, all in one reply."""
    start, target = _task(messages)
    return _calls(_fewest(start, target)) if _replies(messages) == 0 else _text("Done.")


def plod(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Only ever adds one: it arrives, with more moves than it needs."""
    start, target = _task(messages)
    return _calls(["increment"] * (target - start)) if _replies(messages) == 0 else _text("Done.")


def learner(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Now solves and now plods, as a model does that is still learning: rewards differ within a group."""
    return random.choice((solve, plod))(messages, tools)


def idle(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Does nothing."""
    return _text("I would rather not.")


def _task(messages: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    """Start and target, from the prompt."""
    prompt = next(str(message["content"]) for message in messages if message["role"] == "user")
    start, target = re.findall(r"\d+", prompt)[:2]
    return int(start), int(target)


def _fewest(start: int, target: int) -> list[str]:
    """Names of the tools to call, found by trying all ways of one length before any longer one."""
    ways: list[tuple[int, list[str]]] = [(start, [])]
    for value, way in ways:
        if value == target:
            return way
        if value <= target:
            ways += [(value * 2, [*way, "double"]), (value + 1, [*way, "increment"])]
    raise ValueError(f"{target} cannot be reached from {start}")


def _replies(messages: Sequence[Mapping[str, Any]]) -> int:
    return sum(message["role"] == "assistant" for message in messages)


def _text(content: str) -> dict[str, Any]:
    return {"role": "assistant", "content": content}


def _calls(names: list[str]) -> dict[str, Any]:
    calls = [
        {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": json.dumps({})}}
        for number, name in enumerate(names)
    ]
    return {"role": "assistant", "content": "", "tool_calls": calls}
