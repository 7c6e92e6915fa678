"""A session and what it counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agent_env.testing.standin.tree import TreeSession

if TYPE_CHECKING:
    from agent_env.testing.standin.linear import LinearSession
    from agent_env.testing.standin.samples import Sample


@dataclass(slots=True)
class Session:
    """One session.

    Attributes:
        id: 32 hex digits.
        history: v1 or v2.
        chats: chat calls so far, failed ones included.
        generated: tokens of all replies that were answered.
        requests: bodies of the chat requests, in their order.
        samples: what ``/samples`` gave last.
        deleted: whether the trainer deleted it.
    """

    id: str
    history: LinearSession | TreeSession
    chats: int = 0
    generated: int = 0
    requests: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    samples: list[Sample] = field(default_factory=list["Sample"])
    deleted: bool = False

    def metadata(self) -> dict[str, Any]:
        """As the session server describes it."""
        turns = self.history.active()
        described: dict[str, Any] = {
            "tito_session_mismatch": [],
            "accumulated_token_ids": turns[-1].tokens if turns else [],
            "max_trim_tokens": 0,
        }
        if isinstance(self.history, TreeSession):
            described["tree"] = {
                "nodes": [
                    {"id": node.number, "parent": node.parent.number if node.parent else None, "finish": node.finish}
                    for node in self.history.nodes
                ]
            }
        return described
