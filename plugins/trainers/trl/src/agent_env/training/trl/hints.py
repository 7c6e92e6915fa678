"""Python types for JSON Schemas, where the type says just what the schema says.

TRL shows a model what transformers reads off a method's types. Only what it would show again, word for word or with the
same meaning, becomes a type here; the rest is left over, to be told in the parameter's description.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, Union, cast

_BASIC: Final[Mapping[str, Any]] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}
_TYPED: Final = frozenset({"type", "enum", "const", "items", "additionalProperties", "anyOf"})
_SCALARS: Final = (str, int, float, bool, type(None))


class NoHint(Exception):
    """No Python type says what this schema says."""


def hint_of(schema: object) -> tuple[Any, dict[str, Any]]:
    """The type for a parameter's schema, and the keys of the schema that the type does not say.

    The description is never left over.
    """
    if not isinstance(schema, Mapping):
        return Any, {} if schema is True else {"not": {}}
    fields = cast("Mapping[str, Any]", schema)
    left = {key: value for key, value in fields.items() if key != "description"}
    core = {key: left[key] for key in left if key in _TYPED}
    try:
        hint = _exact(core)
    except NoHint:
        return _nearest(core), left
    return hint, {key: value for key, value in left.items() if key not in core}


def _exact(schema: object) -> Any:
    """The type that says exactly this schema.

    Raises:
        NoHint: there is none.
    """
    if not isinstance(schema, Mapping):
        raise NoHint
    fields = cast("Mapping[str, Any]", schema)
    keys = set(fields)
    if not keys:
        return Any
    if keys <= {"type", "enum"} and "enum" in keys:
        return _literal(fields["enum"], fields.get("type"))
    if keys <= {"type", "const"} and "const" in keys:
        return _literal([fields["const"]], fields.get("type"))
    if keys == {"anyOf"}:
        return _union(fields["anyOf"])
    if keys == {"type"}:
        return _basic(fields["type"])
    if keys == {"type", "items"} and fields["type"] == "array":
        return list[_exact(fields["items"])]  # type: ignore[misc]
    if keys == {"type", "additionalProperties"} and fields["type"] == "object":
        return dict[str, _exact(fields["additionalProperties"])]  # type: ignore[misc]
    raise NoHint


def _basic(kind: object) -> Any:
    if isinstance(kind, str) and kind in _BASIC:
        return _BASIC[kind]
    if isinstance(kind, list):
        names = cast("list[object]", kind)
        if len(names) > 1 and len(set(map(str, names))) == len(names):
            return _joined([_basic(name) for name in names])
    raise NoHint


def _union(branches: object) -> Any:
    if not isinstance(branches, list) or len(cast("list[object]", branches)) < 2:
        raise NoHint
    hints = [_exact(branch) for branch in cast("list[object]", branches)]
    if Any in hints or any(hints.count(hint) > 1 for hint in hints):
        raise NoHint
    return _joined(hints)


def _joined(hints: list[Any]) -> Any:
    if all(hint is type(None) for hint in hints):
        raise NoHint
    return Union[tuple(hints)]  # noqa: UP007


def _literal(values: object, kind: object) -> Any:
    if not isinstance(values, list) or not values:
        raise NoHint
    items = cast("list[object]", values)
    shown = {_json_type(item) for item in items}
    said = {kind} if isinstance(kind, str) else set(cast("list[str]", kind)) if isinstance(kind, list) else shown
    # 1 and True are one value to Python, and a set of literals keeps the first of them only.
    if len(items) != len({(type(item), item) for item in items}) or (shown != said):
        raise NoHint
    return Literal[tuple(items)]


def _json_type(value: object) -> str:
    if value is None:
        return "null"
    for kind, name in ((bool, "boolean"), (int, "integer"), (float, "number"), (str, "string")):
        if type(value) is kind:
            return name
    raise NoHint


def _nearest(core: Mapping[str, Any]) -> Any:
    """A type that does not contradict the schema, for one that no type says."""
    kind = core.get("type")
    try:
        return _basic(kind)
    except NoHint:
        return Any
