"""What this distribution offers to AgentEnv."""

from __future__ import annotations

from agent_env.plugin import RewardInfo, hookimpl


@hookimpl
def agentenv_rewards() -> list[RewardInfo]:
    return [
        RewardInfo("brisk", "A step's score, halved for every ten tool calls: brisk:grade", "acme_reward.brisk:build")
    ]
