"""A house with a lamp in every room. One of them is to get another colour; any lamp may be set, but only once."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from agent_env.env import Env, ExtensionError, ToolError, extension, get_data, reset_data, tool

Room = Literal["hall", "kitchen", "cellar", "attic", "study"]
Colour = Literal["red", "orange", "yellow", "green", "blue", "violet"]


class House(Env, name="house"):
    """Lamps that a wish is about."""

    def __init__(self) -> None:
        self.reset()

    @extension("urn:house:wish/v1")
    def wish(self, room: str, now: str, wanted: str) -> None:
        """Begin with the lamp of ``room`` in the colour ``now``; it should be ``wanted``."""
        if room not in get_args(Room) or not {now, wanted} <= {*get_args(Colour)} or now == wanted:
            raise ExtensionError(f"no wish: {room=}, {now=}, {wanted=}", code="invalid_wish")
        self.reset()
        self.wished.update(room=room, now=now, wanted=wanted)

    @reset_data
    def reset(self) -> None:
        """No wish, no lamp set."""
        self.wished: dict[str, str] = {}
        self.lit: dict[str, str] = {}

    @tool
    def set_lamp(self, room: Annotated[Room, "Which lamp."], colour: Annotated[Colour, "Its new colour."]) -> str:
        """Set the lamp of a room."""
        if self.lit:
            raise ToolError("a lamp was set already")
        if self.wished.get("room") == room and self.wished["now"] == colour:
            raise ToolError(f"it is {colour} already")
        self.lit = {"room": room, "colour": colour}
        return "set"

    @get_data
    def state(self) -> list[dict[str, Any]]:
        """What the verifier judges."""
        return [{"kind": "data", "data": {"wished": self.wished, "lit": self.lit}}]


if __name__ == "__main__":
    House.serve()
