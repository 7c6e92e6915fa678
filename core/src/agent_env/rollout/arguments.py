"""The arguments of a tool call: a JSON object, or why not in words the model can act on."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NoReturn, cast


@dataclass(frozen=True, slots=True)
class Arguments:
    """Arguments as they were read.

    Attributes:
        value: the object, `None` when there is none.
        problem: what the model reads when there is none.
    """

    value: dict[str, Any] | None
    problem: str = ""


def read_arguments(raw: object) -> Arguments:
    """Read the arguments of a call, a JSON text or (from engines that parse further) an object.

    Never raises: what is not an object of JSON values has a `Arguments.problem`.
    """
    if isinstance(raw, str):
        try:
            raw = json.loads(raw, parse_constant=_no_constant)
        except RecursionError:
            return Arguments(None, "The arguments are nested too deeply. The call was not run.")
        except ValueError as error:
            return Arguments(
                None,
                f"The arguments are not valid JSON ({error}). The call was not run: "
                "send them again as one JSON object with the tool's parameters.",
            )
    if not isinstance(raw, dict):
        return Arguments(
            None,
            f"The arguments must be a JSON object with the tool's parameters, got {_kind(raw)}. The call was not run.",
        )
    value = cast("dict[str, Any]", raw)
    problem = _not_text(value)
    return Arguments(None, problem) if problem else Arguments(value)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")


def _not_text(value: dict[str, Any]) -> str:
    """Why these values cannot travel as JSON text, ``""`` when they can."""
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        return "The arguments hold half of a surrogate pair, which is no text. The call was not run."
    except RecursionError:
        return "The arguments are nested too deeply. The call was not run."
    except (TypeError, ValueError) as error:
        return f"The arguments are not JSON values ({error}). The call was not run."
    return ""


def _kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, str):
        return "a string"
    return "a list" if isinstance(value, list) else f"a {type(value).__name__}"
