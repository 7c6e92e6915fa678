"""One recorded generation and the errors of a session server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


class SessionError(Exception):
    """A session refuses a request; `status` is the HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(slots=True)
class Turn:
    """A generation that the session recorded.

    Attributes:
        number: place in the order of commits, from 0.
        delta: the messages that this turn added to its parent's: new ones of the request, then the reply.
        prompt: tokens of the whole prompt.
        completion: tokens of the reply.
        finish: its finish reason.
        request: the request's body.
        response: the answer.
        parent: the turn that it continues.
    """

    number: int
    delta: list[dict[str, Any]]
    prompt: list[int]
    completion: list[int]
    finish: str
    request: dict[str, Any]
    response: dict[str, Any]
    parent: Turn | None = None
    children: list[Turn] = field(default_factory=list["Turn"], repr=False)

    @property
    def tokens(self) -> list[int]:
        return self.prompt + self.completion

    def path(self) -> list[Turn]:
        """The turns from the first to this one."""
        turns: list[Turn] = []
        turn: Turn | None = self
        while turn is not None:
            turns.append(turn)
            turn = turn.parent
        return turns[::-1]

    def record(self) -> dict[str, Any]:
        """As the session lists it."""
        return {
            "method": "POST",
            "path": "/v1/chat/completions",
            "status_code": 200,
            "request": {**self.request, "input_ids": self.prompt},
            "response": self.response,
        }
