"""Turns a JSON object into the model of its step type; what is wrong is said with field and nearest name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from agent_env.bundle.names import did_you_mean, listing
from agent_env.bundle.steps.criteria import RESPONSE_CRITERIA, SANDBOX_CRITERIA
from pydantic import BaseModel, ValidationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent_env.bundle.jsontext import Path
    from agent_env.plugin.step import StepModel
    from pydantic_core import ErrorDetails

_EXPECTED: Final = {
    "bool_type": "true or false",
    "dict_type": "an object",
    "float_type": "a number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "list_type": "a list",
    "model_attributes_type": "an object",
    "model_type": "an object",
    "none_required": "null",
    "string_type": "a string",
    "tuple_type": "a list",
}


class Wrong:
    """One thing that is wrong with a step: where in the step, and a message."""

    __slots__ = ("message", "path")

    def __init__(self, path: Path, message: str) -> None:
        self.path = path
        self.message = message


def validate(model: type[StepModel], raw: Mapping[str, Any]) -> tuple[StepModel | None, list[Wrong]]:
    """The step, or what is wrong with it."""
    try:
        return model.model_validate(raw), []
    except ValidationError as error:
        return None, _explain(model, raw, error.errors(include_url=False))
    except RecursionError:
        return None, [Wrong((), "is nested too deeply")]


def _explain(model: type[BaseModel], raw: Mapping[str, Any], errors: list[ErrorDetails]) -> list[Wrong]:
    """What pydantic found, one per place: the alternatives of a union are joined by "or"."""
    expected: dict[Path, list[str]] = {}
    found: list[Wrong] = []
    for error in errors:
        path = _place(raw, error["loc"])
        kind = error["type"]
        if kind in _EXPECTED:
            alternatives = expected.setdefault(path, [])
            if not alternatives:
                found.append(Wrong(path, ""))
            if _EXPECTED[kind] not in alternatives:
                alternatives.append(_EXPECTED[kind])
            continue
        found.append(Wrong(path, _message(model, raw, path, error)))
    for wrong in found:
        if not wrong.message:
            value = _value(raw, wrong.path)
            wrong.message = f"{_shown(wrong.path)}: expected {' or '.join(expected[wrong.path])}, not {_short(value)}"
    return found


def _message(model: type[BaseModel], raw: Mapping[str, Any], path: Path, error: ErrorDetails) -> str:
    kind = error["type"]
    if kind == "extra_forbidden":
        name = str(path[-1])
        known = _fields_at(model, error["loc"])
        hint = did_you_mean(name, known) or (f"; known: {listing(sorted(known), limit=30)}" if known else "")
        where = "" if len(path) == 1 else f" in {_shown(path[:-1])}"
        return f"unknown field {name!r}{where}{hint}"
    if kind == "missing":
        return f"{_shown((*path, *error['loc'][-1:]))}: this field is missing"
    if kind in {"union_tag_invalid", "union_tag_not_found"}:
        return _criterion(raw, path)
    text = error["msg"].removeprefix("Value error, ")
    if kind == "value_error":
        return f"{_shown(path)}: {text}" if path else text
    value = _value(raw, path)
    text = text.removeprefix("Input should be ")
    return f"{_shown(path)}: expected {text[:1].lower()}{text[1:]}, not {_short(value)}"


def _criterion(raw: Mapping[str, Any], path: Path) -> str:
    value = _value(raw, path)
    table = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    known = SANDBOX_CRITERIA if raw.get("type") == "verify_sandbox" else RESPONSE_CRITERIA
    name = table.get("type")
    if not isinstance(name, str):
        hint = "; 'criterion' is only a label" if table.get("criterion") in sorted(known) else ""
        return f"{_shown(path)}: a criterion has a field 'type' that is one of {listing(sorted(known))}{hint}"
    hint = did_you_mean(name, known) or f"; known: {listing(sorted(known))}"
    return f"{_shown(path)}: unknown type of criterion {name!r}{hint}"


def _place(raw: object, loc: tuple[int | str, ...]) -> Path:
    """The part of pydantic's location that leads into the data; names of union members are left out."""
    path: list[str | int] = []
    value = raw
    for part in loc:
        if isinstance(value, dict) and part in (table := cast("dict[object, object]", value)):
            value = table[part]
        elif isinstance(value, list) and isinstance(part, int) and part < len(items := cast("list[object]", value)):
            value = items[part]
        else:
            continue
        path.append(part)
    return tuple(path)


def _value(raw: object, path: Path) -> object:
    value = raw
    for part in path:
        value = cast("Any", value)[part]
    return value


def _fields_at(model: type[BaseModel], loc: tuple[int | str, ...]) -> set[str]:
    """Fields of the model that refused ``loc``: only the step's own are known here."""
    return set(model.model_fields) if len(loc) == 1 else set()


def _shown(path: Path) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return f"field {text!r}" if text else "the step"


def _short(value: object) -> str:
    text = (
        "null" if value is None else {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value)
    )
    return text if len(text) <= 60 else f"{text[:57]}..."
