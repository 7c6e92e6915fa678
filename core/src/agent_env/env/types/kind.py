"""What every kind of parameter type can do, and how a value is named in a message."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Reading:
    """One reading of arguments.

    Attributes:
        lax: accept text for numbers, booleans and dates, as query strings need it.
        problems: what is wrong with the arguments; empty = all well.
    """

    lax: bool = False
    problems: list[str] = field(default_factory=list[str])

    def wrong(self, where: str, expected: str, value: object) -> None:
        """Note that ``where`` should be ``expected``."""
        self.problems.append(f"{where}: expected {expected}, got {shown(value)}")


class Kind:
    """One type of parameter. ``expected`` completes "expected ..."."""

    expected: str = "a value"

    def schema(self) -> dict[str, Any]:
        """JSON Schema of the values that `read` accepts."""
        raise NotImplementedError

    def read(self, value: object, where: str, reading: Reading) -> Any:
        """The Python value for a JSON value; what is wrong with it goes to ``reading.problems``."""
        raise NotImplementedError


def shown(value: object) -> str:
    """A JSON value in a message, short."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return f"the string {_cut(json.dumps(value, ensure_ascii=False))}"
        case int() | float():
            return f"the number {_cut(_number(value))}"
        case list() | tuple():
            return "a list"
        case dict():
            return "an object"
        case _:
            return f"a {type(value).__name__}"


def _number(value: float) -> str:
    try:
        return repr(value)
    except ValueError:  # an int of more digits than Python prints
        return "with very many digits"


def _cut(text: str, most: int = 60) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def joined(names: list[str], word: str = "or") -> str:
    """``a, b or c``."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {word} {names[-1]}"
