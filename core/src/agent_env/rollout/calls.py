"""The tool calls of an assistant message."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from agent_env.plugin.parser import CallStatus
from agent_env.rollout.arguments import Arguments, read_arguments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent_env.plugin.parser import CallAttempt


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a reply.

    Attributes:
        id: what the answer refers to.
        name: the tool, ``""`` when the reply names none.
        arguments: the arguments, or why there are none.
        broken: a parser could not read the call as a whole, perhaps not even its name.
    """

    id: str
    name: str
    arguments: Arguments
    broken: bool = False


def read_calls(message: dict[str, Any]) -> list[Call]:
    """The calls that the engine parsed, in their order; anything that is no call at all is one without a name."""
    raw = message.get("tool_calls")
    if not isinstance(raw, list):
        return []
    return [_read_call(item) for item in cast("list[object]", raw)]


def _read_call(item: object) -> Call:
    fields = cast("dict[str, Any]", item) if isinstance(item, dict) else {}
    function = fields.get("function")
    function_fields = cast("dict[str, Any]", function) if isinstance(function, dict) else {}
    name = function_fields.get("name")
    call_id = fields.get("id")
    return Call(
        id=call_id if isinstance(call_id, str) and call_id else new_call_id(),
        name=name if isinstance(name, str) else "",
        arguments=read_arguments(function_fields.get("arguments")),
    )


def calls_of_attempts(attempts: Sequence[CallAttempt]) -> list[Call]:
    """The calls that one of our parsers read from the text; a broken attempt says what is wrong with it."""
    return [_call_of_attempt(attempt) for attempt in attempts]


def _call_of_attempt(attempt: CallAttempt) -> Call:
    name = attempt.name or ""
    if attempt.status in {CallStatus.OK, CallStatus.UNKNOWN_TOOL}:
        return Call(new_call_id(), name, read_arguments(attempt.arguments if attempt.arguments is not None else {}))
    words = _WORDS.get(attempt.status, "its form is broken")
    problem = f"The call could not be read: {words}. It was not run; send it again."
    return Call(new_call_id(), name, Arguments(None, problem), broken=True)


_WORDS = {
    CallStatus.INVALID_JSON: "its arguments are not valid JSON",
    CallStatus.UNCLOSED_BLOCK: "it was not closed",
    CallStatus.MISSING_NAME: "it names no tool",
    CallStatus.INVALID_ARGUMENTS: "its arguments do not fit the tool",
}


def new_call_id() -> str:
    """A fresh id, shaped as engines make them."""
    return f"call_{secrets.token_hex(12)}"
