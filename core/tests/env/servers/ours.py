"""An env of our own SDK that does a little of everything."""

from __future__ import annotations

import asyncio
import enum
import time
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from agent_env.env import (
    Env,
    ExtensionError,
    Image,
    ToolContext,
    ToolError,
    add_data,
    extension,
    get_data,
    reset_data,
    tool,
)


class Unit(enum.Enum):
    HOURS = "hours"
    MINUTES = "minutes"


@dataclass
class Window:
    start: int
    end: int = 24

    def __post_init__(self) -> None:
        if self.end < self.start:
            raise ValueError("end is before start")


class Clock(Env, name="clock"):
    """A clock and some odd tools."""

    def __init__(self) -> None:
        self.hour = 0
        self.parts: list[dict[str, Any]] = []
        self.running = 0

    @tool
    def set_hour(self, hour: Annotated[int, "0 to 23"], mode: Literal["exact", "about"] = "exact") -> str:
        """Set the clock.

        Args:
            hour: not shown, the annotation stands.
            mode: how exactly.
        """
        if not 0 <= hour < 24:
            raise ToolError("an hour is 0 to 23")
        self.hour = hour
        return f"{hour}:00 {mode}"

    @tool
    def read(self, unit: Unit = Unit.HOURS) -> dict[str, Any]:
        """Read the clock."""
        return {"unit": unit.value, "hour": self.hour}

    @tool
    def between(self, window: Window) -> bool:
        """Whether the time is in a window."""
        return window.start <= self.hour < window.end

    @tool
    def face(self) -> list[object]:
        """A picture."""
        return ["the face", Image(b"\x89PNG", "image/png")]

    @tool(name="{environment_name}_name", annotations={"readOnlyHint": True})
    async def own_name(self, context: ToolContext) -> str:
        """Who asks."""
        return f"{context.role} {context.session is not None}"

    @tool
    def defect(self) -> None:
        """A tool with a defect."""
        raise KeyError("gone")

    @tool
    def leave(self) -> None:
        """A tool that tries to end the process."""
        raise SystemExit(3)

    @tool
    def strange(self) -> object:
        """Returns what is no JSON."""
        return {"when": object()}

    @tool
    def slow(self, seconds: float) -> str:
        """Sleeps in a plain function."""
        time.sleep(seconds)
        return "slept"

    @tool
    async def together(self) -> int:
        """How many calls run side by side."""
        self.running += 1
        await asyncio.sleep(0.2)
        return self.running

    @reset_data
    def reset(self) -> None:
        self.parts = []

    @add_data
    async def add(self, parts: list[dict[str, Any]]) -> None:
        if any(part.get("text") == "bad" for part in parts):
            raise ValueError("this text is bad")
        self.parts.extend(parts)

    @get_data
    def get(self) -> list[dict[str, Any]]:
        return self.parts

    @extension("urn:clock:load/v1")
    def load(self, day: int, strict: bool = False) -> dict[str, Any]:
        if day < 0:
            raise ExtensionError("no such day", code="no_such_day", retryable=True, hint="days start at 0")
        if day > 1000:
            raise RuntimeError("calendar overflow")
        return {"day": day, "strict": strict}

    @extension("urn:clock:zone/v1", op="get", method="GET")
    def get_zone(self, detail: bool = False, names: str = "") -> dict[str, Any]:
        return {"detail": detail, "names": names}

    @extension("urn:clock:zone/v1", op="set")
    async def set_zone(self, offset: int) -> None:
        self.hour = (self.hour + offset) % 24


if __name__ == "__main__":
    Clock.serve()
