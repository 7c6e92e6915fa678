"""What this distribution offers to AgentEnv."""

from __future__ import annotations

from agent_env.plugin import TrainerInfo, hookimpl


@hookimpl
def agentenv_trainers() -> list[TrainerInfo]:
    """The adapter."""
    summary = "Rows with messages, tools and metadata, and the function that plays them"
    return [TrainerInfo("__NAME__", summary, "__MODULE__.adapter:__CLASS__Adapter")]
