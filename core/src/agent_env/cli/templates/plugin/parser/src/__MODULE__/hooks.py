"""What this distribution offers to AgentEnv."""

from __future__ import annotations

from agent_env.plugin import ParserInfo, hookimpl


@hookimpl
def agentenv_parsers() -> list[ParserInfo]:
    """The parser."""
    summary = "JSON objects between <call> and </call>"
    return [ParserInfo("__NAME__", summary, "__MODULE__.parser:__CLASS__", models=("__CLASS__",))]
