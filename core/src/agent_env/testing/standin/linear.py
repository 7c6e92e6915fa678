"""A v1 session: one line of turns; a request that diverges takes back one turn at most."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent_env.testing.standin.matcher import matched_length
from agent_env.testing.standin.tokens import prompt_tokens
from agent_env.testing.standin.turns import SessionError, Turn

if TYPE_CHECKING:
    from collections.abc import Sequence

ROLES = frozenset({"user", "tool", "system", "assistant"})
MAX_ROLLBACK = 1


class LinearSession:
    """v1."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self.committed = 0
        self.rollbacks = 0

    def messages(self) -> list[dict[str, Any]]:
        """The stored history."""
        return [message for turn in self.turns for message in turn.delta]

    def position(self, request: list[dict[str, Any]]) -> Turn | None:
        """Roll back as far as the request asks; returns the turn that it continues, `None` for the empty session.

        Raises:
            SessionError: 400 when more than one turn would be lost, or a new message has a role that is not allowed.
        """
        stored = self.messages()
        matched = matched_length(stored, request)
        if matched < len(stored):
            kept = 0
            end = 0
            for turn in self.turns:
                end += len(turn.delta)
                if end <= matched:
                    kept += 1
            lost = len(self.turns) - kept
            if lost > MAX_ROLLBACK:
                raise SessionError(
                    400,
                    f"rollback failed: discard_count={lost} exceeds max_assistant_rollback_steps={MAX_ROLLBACK} "
                    f"(stored has {len(stored)} messages, request has {len(request)} messages)",
                )
            self.rollbacks += 1
            del self.turns[kept:]
        parent = self.turns[-1] if self.turns else None
        if parent is not None:
            check_roles(request[len(self.messages()) :])
        return parent

    def commit(self, turn: Turn, parent: Turn | None) -> bool:
        """Record a generation; False when the session moved on meanwhile (then nothing is recorded)."""
        if (self.turns[-1] if self.turns else None) is not parent:
            return False
        turn.number = self.committed
        self.committed += 1
        self.turns.append(turn)
        return True

    def active(self) -> list[Turn]:
        """The turns of the current history."""
        return self.turns

    def trajectories(self) -> list[list[Turn]]:
        """What samples are made of: the one line, when it has turns."""
        return [self.turns] if self.turns else []


def check_roles(messages: Sequence[dict[str, Any]]) -> None:
    """Refuse messages whose role the template cannot append."""
    for message in messages:
        if message.get("role") not in ROLES:
            raise SessionError(
                400,
                f"appended message has role={message.get('role')!r}, allowed={sorted(ROLES)}; the selected template "
                "does not support appending this role",
            )


def continued_prompt(
    request: list[dict[str, Any]], tools: Sequence[dict[str, Any]] | None, parent: Turn | None
) -> list[int]:
    """Tokens of ``request``: those of ``parent`` as they were sampled, then the messages beyond it."""
    if parent is None:
        return prompt_tokens(request, tools)
    known = sum(len(turn.delta) for turn in parent.path())
    return prompt_tokens(request[known:], tools, after=parent.tokens)
