"""A v2 session: a forest of turns; a request attaches to the deepest turn whose history it continues."""

from __future__ import annotations

from typing import Any

from agent_env.testing.standin.linear import check_roles
from agent_env.testing.standin.matcher import strict_match
from agent_env.testing.standin.turns import SessionError, Turn

MAX_NODES = 1024


class TreeSession:
    """v2."""

    def __init__(self) -> None:
        self.nodes: list[Turn] = []
        self.last: Turn | None = None
        self.rollbacks = 0

    def position(self, request: list[dict[str, Any]]) -> Turn | None:
        """The deepest turn whose whole history is a prefix of the request, the latest of equals.

        Raises:
            SessionError: 409 when that turn was cut by ``length``; 400 for a role that is not allowed.
        """
        best: Turn | None = None
        best_length = -1
        for node in self.nodes:
            length = _consumed(node, request)
            if length is not None and length >= best_length:
                best, best_length = node, length
        if best is not None:
            check_roles(request[best_length:])
            if best.finish == "length":
                raise SessionError(
                    409, "the matched generation ended with finish_reason='length' and cannot be extended"
                )
        return best

    def commit(self, turn: Turn, parent: Turn | None) -> bool:
        """Record a generation below ``parent``."""
        if len(self.nodes) >= MAX_NODES:
            raise SessionError(400, f"node cap reached ({MAX_NODES})")
        turn.number = len(self.nodes)
        turn.parent = parent
        self.nodes.append(turn)
        if parent is not None:
            parent.children.append(turn)
        self.last = turn
        return True

    def active(self) -> list[Turn]:
        """The turns from the root to the latest."""
        return self.last.path() if self.last is not None else []

    def trajectories(self) -> list[list[Turn]]:
        """One for each leaf but those that a later sibling replaced; the longest path first."""
        kept = [
            node
            for node in self.nodes
            if not node.children
            and (node.parent is None or all(other.number <= node.number for other in node.parent.children))
        ]
        return sorted((node.path() for node in kept), key=lambda path: (len(path), path[-1].number), reverse=True)


def _consumed(node: Turn, request: list[dict[str, Any]]) -> int | None:
    """Length of the node's history when it is a prefix of the request."""
    history = [message for turn in node.path() for message in turn.delta]
    if len(history) > len(request):
        return None
    if all(strict_match(ours, theirs) for ours, theirs in zip(history, request, strict=False)):
        return len(history)
    return None
