"""A policy for any bundle: calls tools at random with arguments that fit their schemas."""

from __future__ import annotations

import json
import random
import string
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_WORDS = ("alpha", "north", "blue", "7", "Überfluss", "", "a longer text with spaces", "../x", '"quoted"', "零")


def random_value(schema: Mapping[str, Any], rng: random.Random, *, depth: int = 0) -> Any:
    """A value that fits the JSON Schema ``schema``, as far as types, enums, bounds and required fields go.

    ``pattern``, ``format`` and ``not`` are not looked at: a tool answers a value that breaks them as it does a model's.
    """
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return rng.choice(cast("list[Any]", schema["enum"]))
    for key in ("anyOf", "oneOf"):
        if schema.get(key):
            return random_value(rng.choice(cast("list[dict[str, Any]]", schema[key])), rng, depth=depth)
    kinds = schema.get("type", "object" if "properties" in schema else "string")
    kind = rng.choice(cast("list[str]", kinds)) if isinstance(kinds, list) else kinds
    if kind == "object":
        return _random_object(schema, rng, depth)
    if kind == "array":
        return _random_array(schema, rng, depth)
    return _random_scalar(str(kind), schema, rng)


def _random_object(schema: Mapping[str, Any], rng: random.Random, depth: int) -> dict[str, Any]:
    properties = cast("dict[str, dict[str, Any]]", schema.get("properties", {}))
    required = set(cast("list[str]", schema.get("required", [])))
    chosen = [name for name in properties if name in required or (depth < 4 and rng.random() < 0.5)]
    return {name: random_value(properties[name], rng, depth=depth + 1) for name in chosen}


def _random_array(schema: Mapping[str, Any], rng: random.Random, depth: int) -> list[Any]:
    least = int(schema.get("minItems", 0))
    most = int(schema.get("maxItems", max(least, 4 if depth < 4 else 0)))
    items = cast("dict[str, Any]", schema.get("items") or {"type": "string"})
    return [random_value(items, rng, depth=depth + 1) for _ in range(rng.randint(least, max(least, most)))]


def _random_scalar(kind: str, schema: Mapping[str, Any], rng: random.Random) -> Any:
    if kind == "null":
        return None
    if kind == "boolean":
        return rng.random() < 0.5
    if kind in {"integer", "number"}:
        low = float(schema.get("minimum", schema.get("exclusiveMinimum", -8) + ("exclusiveMinimum" in schema)))
        high = float(schema.get("maximum", schema.get("exclusiveMaximum", low + 16) - ("exclusiveMaximum" in schema)))
        if kind == "integer":
            return rng.randint(round(low), max(round(low), round(high)))
        return round(rng.uniform(low, max(low, high)), 3)
    text = rng.choice(_WORDS)
    least = int(schema.get("minLength", 0))
    text += "".join(rng.choices(string.ascii_letters, k=max(0, least - len(text))))
    return text[: int(schema["maxLength"])] if "maxLength" in schema else text


def random_policy(*, calls: int = 3, seed: int = 0) -> Callable[..., dict[str, Any]]:
    """A stand-in model that makes ``calls`` random calls and then ends its turn; not safe to share between threads."""
    rng = random.Random(seed)  # noqa: S311 - not for secrets

    def reply(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        spoken = sum(1 for message in messages if message.get("role") == "assistant")
        own = [tool["function"] for tool in tools if tool["function"]["name"] != "end_turn"]
        if spoken >= calls or not own:
            return {"role": "assistant", "content": "That is all."}
        tool = rng.choice(own)
        arguments = random_value(tool.get("parameters") or {"type": "object"}, rng)
        call = {"type": "function", "function": {"name": tool["name"], "arguments": json.dumps(arguments)}}
        return {"role": "assistant", "content": "", "tool_calls": [call]}

    return reply
