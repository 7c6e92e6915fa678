"""Registers the adapter."""

from __future__ import annotations

from agent_env.plugin import TrainerInfo, hookimpl


@hookimpl
def agentenv_trainers() -> list[TrainerInfo]:
    """The trainer that this distribution is for."""
    return [
        TrainerInfo(
            name="verl",
            summary="verl: an agent loop with token-exact turns for a served bundle, and its parquet rows",
            factory="agent_env.training.verl.adapter:VerlAdapter",
        )
    ]
