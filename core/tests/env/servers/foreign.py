"""An env written with the public protocol's own author SDK."""

# mypy: ignore-errors
# pyright: basic

from __future__ import annotations

from typing import Any

from agentenv_protocol import (
    AgentEnvEnvironment,
    AgentEnvError,
    add_data,
    environment_card,
    extension,
    get_data,
    reset_data,
    tool,
)


@environment_card(name="foreign")
class Foreign(AgentEnvEnvironment):
    tool_access = True

    def __init__(self) -> None:
        self.parts: list[Any] = []

    @tool()
    def add(self, a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @tool()
    def refuse(self) -> str:
        """Says no."""
        raise AgentEnvError("not_now", "come back later")

    @tool()
    def secret(self) -> str:
        """To be hidden."""
        return "secret"

    @reset_data
    def reset(self) -> None:
        self.parts = []

    @add_data
    def load(self, parts: list[Any]) -> None:
        self.parts.extend(parts)

    @get_data
    def dump(self) -> list[Any]:
        return self.parts

    @extension("urn:foreign:game/v1")
    def new_game(self, level: int) -> dict[str, Any]:
        if level > 9:
            raise AgentEnvError("too_hard", "levels end at 9", status=409, retryable=True, applied="no")
        return {"level": level}

    @extension("urn:foreign:info/v1", op="show", method="GET")
    def show(self, part: str = "all") -> dict[str, Any]:
        return {"part": part}


if __name__ == "__main__":
    Foreign().serve()
