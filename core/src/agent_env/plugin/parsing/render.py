"""Writing calls, for tests and for conversations that a format has to show."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from agent_env.plugin.parser import CallStatus

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agent_env.plugin.parser import ToolCallParser


def render_value(value: Any) -> str:
    """A value between tags: strings as they are, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def tools_of(calls: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Tools whose schemas fit these calls: each parameter has the types of its values."""
    schemas: dict[str, dict[str, set[str]]] = {}
    for call in calls:
        types = schemas.setdefault(call["name"], {})
        for key, value in call["arguments"].items():
            types.setdefault(key, set()).add(_type_of(value))
    return [
        {
            "type": "function",
            "function": {
                "name": name,
                "parameters": {
                    "type": "object",
                    "properties": {key: _schema_of(types) for key, types in properties.items()},
                },
            },
        }
        for name, properties in schemas.items()
    ]


def reads_again(parser: ToolCallParser, text: str, calls: Sequence[Mapping[str, Any]]) -> bool:
    """Whether parsing ``text`` gives ``calls`` and nothing else, when the tools' schemas fit the values."""
    read = parser.parse(text, tools_of(calls))
    if read.content or read.reasoning is not None or len(read.calls) != len(calls):
        return False
    return all(
        attempt.status is CallStatus.OK
        and attempt.name == call["name"]
        and same_json(attempt.arguments, call["arguments"])
        for attempt, call in zip(read.calls, calls, strict=True)
    )


def same_json(first: object, second: object) -> bool:
    """Equality of JSON values: numbers by value, but a number is never a boolean."""
    if isinstance(first, bool) or isinstance(second, bool):
        return first is second
    if isinstance(first, dict) and isinstance(second, dict):
        one, two = cast("dict[str, object]", first), cast("dict[str, object]", second)
        return one.keys() == two.keys() and all(same_json(value, two[key]) for key, value in one.items())
    if isinstance(first, list) and isinstance(second, list):
        left, right = cast("list[object]", first), cast("list[object]", second)
        return len(left) == len(right) and all(same_json(a, b) for a, b in zip(left, right, strict=True))
    return first == second


def _schema_of(types: set[str]) -> dict[str, Any]:
    if types == {"null"}:
        types = {"null", "integer"}
    return {"type": sorted(types) if len(types) > 1 else next(iter(types))}


def _type_of(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"
