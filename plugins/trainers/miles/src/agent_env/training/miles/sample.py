"""Samples shaped as Miles' own, for rehearsals: what agent function, reward function and filters see of them."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Status(Enum):
    """As ``Sample.Status`` of Miles."""

    PENDING = "pending"
    COMPLETED = "completed"
    TRUNCATED = "truncated"
    ABORTED = "aborted"
    FAILED = "failed"


@dataclass(slots=True)
class Sample:
    """As ``Sample`` of Miles, without what training alone uses."""

    prompt: list[dict[str, Any]]
    metadata: dict[str, Any]
    group_index: int = 0
    index: int = 0
    tokens: list[int] = field(default_factory=list[int])
    response: str = ""
    response_length: int = 0
    loss_mask: list[int] | None = None
    reward: float | None = None
    status: Status = Status.PENDING
    label: str | None = None
    non_generation_time: float = 0.0
    remove_sample: bool = False

    def collected(self, fields: dict[str, Any]) -> Sample:
        """A copy with what the session assembled."""
        return Sample(
            prompt=self.prompt,
            metadata={**copy.deepcopy(self.metadata), **fields["metadata"]},
            group_index=self.group_index,
            index=self.index,
            tokens=fields["tokens"],
            response=fields["response"],
            response_length=fields["response_length"],
            loss_mask=fields["loss_mask"],
            reward=fields["reward"],
            status=Status(fields["status"]),
        )

    def aborted(self) -> Sample:
        """A copy of which nothing was recorded."""
        return Sample(self.prompt, copy.deepcopy(self.metadata), self.group_index, self.index, status=Status.ABORTED)
