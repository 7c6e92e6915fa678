"""The class that env authors subclass."""

from __future__ import annotations

import sys
from typing import Any, ClassVar

from agent_env.errors import AgentEnvError


class Env:
    """An env: one object per process, so one per episode.

    Subclass it, mark methods with `tool`, `extension`, `reset_data`, `add_data` and `get_data`, and end the file with
    ``if __name__ == "__main__": MyEnv.serve()``. The constructor takes nothing.

    Args:
        name: the env's name; default: the class's name. ``ENVIRONMENT_NAME`` overrides it.
        tool_access: serve the extensions by which a task hides tools from roles.
    """

    env_name: ClassVar[str | None] = None
    tool_access: ClassVar[bool] = False

    def __init_subclass__(cls, *, name: str | None = None, tool_access: bool | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # A subclass of a named env is an env of its own, unless it says otherwise.
        cls.env_name = name if name is not None else cls.__dict__.get("env_name")
        if tool_access is not None:
            cls.tool_access = tool_access

    @classmethod
    def serve(cls) -> None:
        """Make one instance and serve it until SIGTERM or SIGINT.

        Listens on the unix socket ``AGENTENV_UDS``, else on ``MCP_HOST``:``MCP_PORT`` (default ``0.0.0.0:18765``).
        """
        from agent_env.env.server import serve_class

        try:
            serve_class(cls)
        except AgentEnvError as error:
            sys.exit(f"{cls.__name__}: {error}")
