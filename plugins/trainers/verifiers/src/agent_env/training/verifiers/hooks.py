"""Registers the adapter."""

from __future__ import annotations

from agent_env.plugin import TrainerInfo, hookimpl


@hookimpl
def agentenv_trainers() -> list[TrainerInfo]:
    """The trainer that this distribution is for."""
    return [
        TrainerInfo(
            name="verifiers",
            summary="verifiers and prime-rl: a taskset with native tools and a harness for a served bundle",
            factory="agent_env.training.verifiers.adapter:VerifiersAdapter",
        )
    ]
