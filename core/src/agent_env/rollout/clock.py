"""A rollout's clocks: one for getting an episode, one for the whole."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass(slots=True)
class Clock:
    """Counts from its creation, in seconds.

    Attributes:
        limit: what the rollout may take without its tool calls.
        tool_seconds: what its tool calls took; each has a deadline of its own.
    """

    limit: float
    started: float = field(default_factory=time.monotonic)
    tool_seconds: float = 0.0
    tool_started: float | None = None

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.started

    @property
    def left(self) -> float:
        """Seconds left of the limit; it stands still while a tool call runs."""
        running = 0.0 if self.tool_started is None else time.monotonic() - self.tool_started
        return self.limit + self.tool_seconds + running - self.elapsed

    def start_tool(self) -> None:
        self.tool_started = time.monotonic()

    def stop_tool(self) -> float:
        """Returns the seconds since `start_tool`."""
        seconds = 0.0 if self.tool_started is None else time.monotonic() - self.tool_started
        self.tool_started = None
        self.tool_seconds += seconds
        return seconds
