"""Registers the adapter."""

from __future__ import annotations

from agent_env.plugin import TrainerInfo, hookimpl


@hookimpl
def agentenv_trainers() -> list[TrainerInfo]:
    """The trainer that this distribution is for."""
    return [
        TrainerInfo(
            name="skyrl",
            summary="SkyRL: text environment, generator that contains failures, and rows",
            factory="agent_env.training.skyrl.adapter:SkyrlAdapter",
        )
    ]
