"""Faults on purpose, scripted by chat call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong with one chat call; build it with the class methods.

    Attributes:
        delay: seconds before anything else happens.
        status: answer this status instead of a reply; nothing is recorded.
        body: body of that answer, JSON or plain text.
        drop: close the connection without an answer, ``"before"`` or ``"after"`` the turn is recorded.
        finish: the finish reason of the reply; ``"abort"`` and ``"length"`` cut its text in half and its calls away.
        reply: replaces the policy's reply (message fields or a text), for example markup that no parser read.
    """

    delay: float = 0.0
    status: int | None = None
    body: Any = None
    drop: Literal["before", "after"] | None = None
    finish: str | None = None
    reply: Mapping[str, Any] | str | None = None

    @classmethod
    def error(cls, status: int = 502, message: str = "engine unreachable") -> Fault:
        """An error of the session server."""
        return cls(status=status, body={"error": message})

    @classmethod
    def plain_error(cls, status: int = 500, message: str = "Internal Server Error") -> Fault:
        """An error as plain text, as a template failure gives it."""
        return cls(status=status, body=message)

    @classmethod
    def context(cls, tokens: int = 40000, limit: int = 32768) -> Fault:
        """The engine's 400 for a conversation that is too long, in the engine's shape."""
        message = f"The input ({tokens} tokens) is longer than the model's context length ({limit} tokens)."
        return cls(
            status=400,
            body={"object": "error", "message": message, "type": "BadRequestError", "param": None, "code": 400},
        )

    @classmethod
    def dropped(cls, when: Literal["before", "after"] = "before") -> Fault:
        """The connection breaks."""
        return cls(drop=when)

    @classmethod
    def slow(cls, seconds: float) -> Fault:
        """The reply takes its time."""
        return cls(delay=seconds)

    @classmethod
    def ends(cls, finish: Literal["abort", "length"]) -> Fault:
        """The reply is cut."""
        return cls(finish=finish)

    @classmethod
    def writes(cls, reply: Mapping[str, Any] | str) -> Fault:
        """The model writes this instead."""
        return cls(reply=reply)


Faults = Mapping[int, Fault] | Callable[[str, int], Fault | None]
"""By number of the chat call within its session, counted from 0 and with failed ones; or a function of session id and
that number."""


def fault_of(faults: Faults | None, session_id: str, number: int) -> Fault:
    """The fault of one call, an empty one when there is none."""
    if faults is None:
        return Fault()
    found = faults(session_id, number) if callable(faults) else faults.get(number)
    return found or Fault()
