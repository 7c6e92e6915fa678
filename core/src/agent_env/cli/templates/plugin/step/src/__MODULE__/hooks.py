"""What this distribution offers to AgentEnv."""

from __future__ import annotations

from agent_env.plugin import StepInfo, hookimpl


@hookimpl
def agentenv_steps() -> list[StepInfo]:
    """The step type: its fields and its work are imported apart from each other."""
    summary = "Score what a tool of an env answers"
    return [StepInfo("__NAME__", summary, model="__MODULE__.model:__CLASS__", run="__MODULE__.run:run")]
