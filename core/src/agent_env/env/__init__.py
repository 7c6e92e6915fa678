"""Both halves of the env protocol: the SDK that env authors use and the client that plays an env.

An env, whole::

    from agent_env.env import Env, ToolError, tool

    class Clock(Env, name="clock"):
        def __init__(self) -> None:
            self.hours = 0

        @tool
        def set_hour(self, hour: int) -> str:
            "Set the clock."
            if not 0 <= hour < 24:
                raise ToolError("an hour is 0 to 23")
            self.hours = hour
            return f"{hour}:00"

    if __name__ == "__main__":
        Clock.serve()

Importing this loads the standard library only. The client is `agent_env.env.client`.
"""

from __future__ import annotations

from agent_env.env.base import Env
from agent_env.env.context import ToolContext
from agent_env.env.decorators import add_data, extension, get_data, reset_data, tool
from agent_env.env.exceptions import ExtensionError, ToolError
from agent_env.env.results import Image

__all__ = [
    "Env",
    "ExtensionError",
    "Image",
    "ToolContext",
    "ToolError",
    "add_data",
    "extension",
    "get_data",
    "reset_data",
    "tool",
]
