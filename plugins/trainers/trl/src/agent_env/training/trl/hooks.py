"""Registers the adapter."""

from __future__ import annotations

from agent_env.plugin import TrainerInfo, hookimpl


@hookimpl
def agentenv_trainers() -> list[TrainerInfo]:
    """The trainer that this distribution is for."""
    return [
        TrainerInfo(
            name="trl",
            summary="TRL (and Unsloth): datasets, environments, rewards and sessions of a served bundle",
            factory="agent_env.training.trl.adapter:TrlAdapter",
        )
    ]
