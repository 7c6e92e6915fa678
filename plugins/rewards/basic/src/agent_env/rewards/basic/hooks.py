"""What this distribution offers."""

from __future__ import annotations

from agent_env.plugin import RewardInfo, hookimpl


@hookimpl
def agentenv_rewards() -> list[RewardInfo]:
    """The combiners of this distribution."""
    fold = "agent_env.rewards.basic.fold"
    return [
        RewardInfo("mean", "Mean of all scores, or of some: mean:a,b", f"{fold}:build_mean"),
        RewardInfo("min", "Least of all scores, or of some: min:a,b", f"{fold}:build_min"),
        RewardInfo("max", "Greatest of all scores, or of some: max:a,b", f"{fold}:build_max"),
        RewardInfo("product", "Product of all scores, or of some: product:a,b", f"{fold}:build_product"),
        RewardInfo(
            "weighted", "Weighted mean of some scores: weighted:a=0.7,b=0.3", "agent_env.rewards.basic.weighted:build"
        ),
    ]
