"""A signal lights up, and one of three buttons answers it. Which one has to be found out."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from agent_env.env import Env, ToolError, extension, get_data, reset_data, tool

ANSWERS = {"red": "left", "green": "right", "blue": "middle"}
Button = Literal["left", "middle", "right"]


class Signals(Env, name="signals"):
    """Three buttons under a signal."""

    def __init__(self) -> None:
        self.reset()

    @reset_data
    def reset(self) -> None:
        """Forget the signal."""
        self.signal = ""
        self.pressed = ""

    @extension("urn:signals:show/v1")
    def show(self, signal: str) -> dict[str, Any]:
        """Show a signal."""
        if signal not in ANSWERS:
            raise ValueError(f"no signal {signal!r}")
        self.signal, self.pressed = signal, ""
        return {}

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
        right = ANSWERS.get(self.signal, "")
        return [{"kind": "data", "data": {"pressed": self.pressed, "right": right}}]


if __name__ == "__main__":
    Signals.serve()
