"""Text, numbers, booleans, null, choices and the types that JSON writes as text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from agent_env.env.nearest import nearest
from agent_env.env.types.kind import Kind, Reading, joined

if TYPE_CHECKING:
    from collections.abc import Callable

_TRUE = frozenset({"true", "1", "yes", "on"})
_FALSE = frozenset({"false", "0", "no", "off"})


class AnyKind(Kind):
    def schema(self) -> dict[str, Any]:
        return {}

    def read(self, value: object, where: str, reading: Reading) -> Any:  # noqa: ARG002 - anything will do
        return value


class NoneKind(Kind):
    expected = "null"

    def schema(self) -> dict[str, Any]:
        return {"type": "null"}

    def read(self, value: object, where: str, reading: Reading) -> Any:
        if value is not None and not (reading.lax and value in ("", "null", "none")):
            reading.wrong(where, self.expected, value)


class TextKind(Kind):
    expected = "a string"

    def schema(self) -> dict[str, Any]:
        return {"type": "string"}

    def read(self, value: object, where: str, reading: Reading) -> Any:
        if not isinstance(value, str):
            if reading.lax and isinstance(value, int | float) and not isinstance(value, bool):
                return str(value)
            reading.wrong(where, self.expected, value)
        return value


class BoolKind(Kind):
    expected = "true or false"

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}

    def read(self, value: object, where: str, reading: Reading) -> Any:
        if isinstance(value, bool):
            return value
        if reading.lax and isinstance(value, str | int):
            word = str(value).strip().lower()
            if word in _TRUE or word in _FALSE:
                return word in _TRUE
        reading.wrong(where, self.expected, value)
        return value


class IntKind(Kind):
    """Integers; ``3.0`` is one, as JSON Schema has it, ``true`` is none."""

    expected = "an integer"

    def schema(self) -> dict[str, Any]:
        return {"type": "integer"}

    def read(self, value: object, where: str, reading: Reading) -> Any:
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if reading.lax and isinstance(value, str):
            try:
                return int(value.strip())
            except ValueError:
                pass
        reading.wrong(where, self.expected, value)
        return value


class FloatKind(Kind):
    expected = "a number"

    def schema(self) -> dict[str, Any]:
        return {"type": "number"}

    def read(self, value: object, where: str, reading: Reading) -> Any:
        if (isinstance(value, int | float) and not isinstance(value, bool)) or (reading.lax and isinstance(value, str)):
            try:
                return float(value)
            except (ValueError, OverflowError):
                pass
        reading.wrong(where, self.expected, value)
        return value


class ChoiceKind(Kind):
    """`Literal` and `Enum`: one of some JSON scalars, each standing for a Python value."""

    def __init__(self, choices: list[tuple[Any, Any]]) -> None:
        self.choices = choices
        self.expected = f"one of {joined([json.dumps(key, ensure_ascii=False) for key, _ in choices])}"

    def schema(self) -> dict[str, Any]:
        keys = [key for key, _ in self.choices]
        kinds = {_json_type(key) for key in keys}
        head: dict[str, Any] = {"type": kinds.pop()} if len(kinds) == 1 else {}
        return {**head, "enum": keys}

    def read(self, value: object, where: str, reading: Reading) -> Any:
        for key, result in self.choices:
            if same_json(key, value) or (reading.lax and isinstance(value, str) and _word(key) == value):
                return result
        reading.wrong(where, self.expected, value)
        names = [key for key, _ in self.choices if isinstance(key, str)]
        if isinstance(value, str) and (near := nearest(value, names)) is not None:
            reading.problems[-1] += f"; did you mean {near!r}?"
        return value


class ParsedTextKind(Kind):
    """A type that JSON writes as text: dates, UUIDs, decimals."""

    def __init__(self, expected: str, parse: Callable[[str], Any], form: str | None, *, numbers: bool = False) -> None:
        self.expected = expected
        self._parse = parse
        self._form = form
        self._numbers = numbers

    def schema(self) -> dict[str, Any]:
        text: dict[str, Any] = {"type": "string"}
        if self._form is not None:
            text["format"] = self._form
        return {"anyOf": [{"type": "number"}, text]} if self._numbers else text

    def read(self, value: object, where: str, reading: Reading) -> Any:
        text = value
        if self._numbers and isinstance(value, int | float) and not isinstance(value, bool):
            text = str(value)
        if isinstance(text, str):
            try:
                return self._parse(text.strip())
            except (ValueError, ArithmeticError):
                pass
        reading.wrong(where, self.expected, value)
        return value


def same_json(a: object, b: object) -> bool:
    """Whether two JSON scalars are equal: ``1`` and ``1.0`` are, ``1`` and ``true`` are not."""
    return isinstance(a, bool) is isinstance(b, bool) and a == b


def _json_type(key: object) -> str:
    match key:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case _:
            return "string"


def _word(key: object) -> str:
    return key if isinstance(key, str) else json.dumps(key)
