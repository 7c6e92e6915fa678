"""What this distribution offers."""

from __future__ import annotations

from agent_env.plugin import ParserInfo, hookimpl


@hookimpl
def agentenv_parsers() -> list[ParserInfo]:
    """The parser of this distribution."""
    return [
        ParserInfo(
            "glm45",
            "Name, <arg_key> and <arg_value> in <tool_call> tags",
            "agent_env.parsers.glm.glm45:Glm45Parser",
            ("GLM 4.5", "GLM 4.6"),
        )
    ]
