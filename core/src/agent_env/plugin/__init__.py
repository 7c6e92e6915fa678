"""What the author of a plugin imports.

A plugin is a distribution with an entry point in the group ``agentenv`` that names a module of hook implementations::

    [project.entry-points.agentenv]
    acme = "acme_env.hooks"

    # acme_env/hooks.py
    from agent_env.plugin import RewardInfo, hookimpl

    @hookimpl
    def agentenv_rewards():
        return [RewardInfo(name="acme", summary="Rewards short plans", factory="acme_env.reward:build")]

A hook returns *data*: the class behind ``factory`` is imported when somebody uses it, so that listing plugins stays
fast and one broken plugin cannot stop the others.
"""

from agent_env.plugin.infos import CommandInfo, ParserInfo, RewardInfo, SandboxInfo, StepInfo, TrainerInfo
from agent_env.plugin.markers import ENTRY_POINT_GROUP, hookimpl

__all__ = [
    "ENTRY_POINT_GROUP",
    "CommandInfo",
    "ParserInfo",
    "RewardInfo",
    "SandboxInfo",
    "StepInfo",
    "TrainerInfo",
    "hookimpl",
]
