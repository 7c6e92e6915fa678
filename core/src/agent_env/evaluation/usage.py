"""Tokens as chat endpoints count them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast


@dataclass(slots=True)
class Usage:
    """Tokens that replies cost, as the endpoint counted them.

    Attributes:
        prompt: of all requests.
        completion: of all replies.
        cached: those of ``prompt`` that the endpoint says it had cached.
        replies: replies in all.
        uncounted: replies for which the endpoint gave no usage.
    """

    prompt: int = 0
    completion: int = 0
    cached: int = 0
    replies: int = 0
    uncounted: int = 0

    def merge(self, other: Usage) -> None:
        """Add what another episode cost."""
        self.prompt += other.prompt
        self.completion += other.completion
        self.cached += other.cached
        self.replies += other.replies
        self.uncounted += other.uncounted

    @property
    def total(self) -> int:
        return self.prompt + self.completion

    def add(self, payload: object) -> None:
        """Count what a chat completion says."""
        self.replies += 1
        usage = as_fields(as_fields(payload).get("usage"))
        prompt, completion = as_count(usage.get("prompt_tokens")), as_count(usage.get("completion_tokens"))
        if prompt is None or completion is None:
            self.uncounted += 1
            return
        self.prompt += prompt
        self.completion += completion
        self.cached += as_count(as_fields(usage.get("prompt_tokens_details")).get("cached_tokens")) or 0


def as_fields(value: object) -> dict[str, Any]:
    """``value`` when it is an object, else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_count(value: object) -> int | None:
    """``value`` when it is a count, else `None`."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
