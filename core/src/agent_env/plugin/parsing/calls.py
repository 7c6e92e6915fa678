"""Call objects and argument texts in JSON."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from agent_env.plugin.parsing.jsonvalue import NotJson, decode_json, decode_prefix


class CallObject(NamedTuple):
    """A call read from JSON.

    Attributes:
        name: `None` when there is none.
        arguments: `None` when they are no object.
        decoded: whether every value could be decoded.
        is_object: whether the JSON was an object at all.
    """

    name: str | None
    arguments: dict[str, Any] | None
    decoded: bool
    is_object: bool


def read_call_object(value: object, *, decoded: bool = True) -> CallObject:
    """A JSON value as ``{"name": ..., "arguments": ...}``; ``parameters`` is read where there are no arguments."""
    if not isinstance(value, dict):
        return CallObject(None, None, decoded, False)
    fields = cast("dict[str, Any]", value)
    name = fields.get("name")
    raw = fields["arguments"] if "arguments" in fields else fields.get("parameters")
    arguments, whole = as_arguments(raw)
    return CallObject(name if isinstance(name, str) and name else None, arguments, decoded and whole, True)


def as_arguments(value: object) -> tuple[dict[str, Any] | None, bool]:
    """Arguments as an object: null is none, and a string that holds an object in JSON is decoded once.

    Returns:
        the object, or `None` when there is none; and whether every value in it could be decoded.
    """
    if value is None:
        return {}, True
    decoded = True
    if isinstance(value, str):
        try:
            value, decoded = decode_json(value)
        except NotJson:
            return None, True
    return (cast("dict[str, Any]", value), decoded) if isinstance(value, dict) else (None, True)


def read_arguments_text(text: str) -> tuple[dict[str, Any] | None, bool]:
    """Arguments that are written as JSON text; empty text is none.

    Raises:
        NotJson: the text is not JSON.
    """
    text = text.strip()
    if not text:
        return {}, True
    value, decoded = decode_json(text)
    arguments, whole = as_arguments(value)
    return arguments, decoded and whole


def read_cut(text: str, allowed: str = "") -> tuple[dict[str, Any], bool] | None:
    """The JSON object of a block that was cut, when all of it is there; else `None`.

    Args:
        text: what stands in the block.
        allowed: what may follow the value, whole or cut anywhere, between white space.
    """
    text = text.strip()
    try:
        value, decoded, end = decode_prefix(text)
    except NotJson:
        return None
    rest = "".join(text[end:].split())
    if not isinstance(value, dict) or not allowed.startswith(rest):
        return None
    return cast("dict[str, Any]", value), decoded
