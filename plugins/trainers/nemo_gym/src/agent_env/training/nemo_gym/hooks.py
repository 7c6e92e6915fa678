"""Registers the adapter."""

from __future__ import annotations

from agent_env.plugin import TrainerInfo, hookimpl


@hookimpl
def agentenv_trainers() -> list[TrainerInfo]:
    """The trainer that this distribution is for."""
    return [
        TrainerInfo(
            name="nemo-gym",
            summary="NeMo Gym and NeMo RL: a resources server over a served bundle, and its rows",
            factory="agent_env.training.nemo_gym.adapter:NemoGymAdapter",
        )
    ]
