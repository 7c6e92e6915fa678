"""What this distribution offers to AgentEnv."""

from __future__ import annotations

from agent_env.plugin import RewardInfo, hookimpl


@hookimpl
def agentenv_rewards() -> list[RewardInfo]:
    """The combiner."""
    summary = "A step's score, halved for every ten tool calls: __NAME__:grade"
    return [RewardInfo("__NAME__", summary, "__MODULE__.combiner:build")]
