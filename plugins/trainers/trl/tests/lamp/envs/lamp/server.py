"""A lamp with three buttons. How bright each makes it has to be found out."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from agent_env.env import Env, ToolError, get_data, reset_data, tool

BRIGHTNESS = {"left": 0.5, "middle": 1.0, "right": 0.2}
Button = Literal["left", "middle", "right"]


class Lamp(Env, name="lamp"):
    """A lamp that is dark at first."""

    def __init__(self) -> None:
        self.reset()

    @reset_data
    def reset(self) -> None:
        """Switch it off."""
        self.pressed = ""

    @tool
    def press(self, button: Annotated[Button, "Which one."]) -> str:
        """Press a button, once."""
        if self.pressed:
            raise ToolError("a button was pressed already")
        self.pressed = button
        return "pressed"

    @get_data
    def state(self) -> list[dict[str, Any]]:
        """What the verifier judges."""
        return [{"kind": "data", "data": {"pressed": self.pressed, "brightness": BRIGHTNESS.get(self.pressed, 0.0)}}]


if __name__ == "__main__":
    Lamp.serve()
