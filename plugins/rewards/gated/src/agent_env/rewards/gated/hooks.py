"""What this distribution offers."""

from __future__ import annotations

from agent_env.plugin import RewardInfo, hookimpl


@hookimpl
def agentenv_rewards() -> list[RewardInfo]:
    """The combiners of this distribution."""
    build = "agent_env.rewards.gated.build"
    return [
        RewardInfo("gate", "One value or another by a condition: gate:format>=1,then=grade,else=0", f"{build}:gate"),
        RewardInfo(
            "penalized",
            "A value minus penalties for length and mistakes: penalized:grade,per_call=0.01,free_calls=5,min=0",
            f"{build}:penalized",
        ),
        RewardInfo("clip", "A value kept within bounds: clip:grade,min=0,max=1", f"{build}:clip"),
    ]
