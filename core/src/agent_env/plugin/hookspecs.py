"""The hooks of AgentEnv. Each returns a list of info objects; none takes an argument. Added in 0.1."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_env.plugin.markers import hookspec

if TYPE_CHECKING:
    from agent_env.plugin.infos import CommandInfo, ParserInfo, RewardInfo, SandboxInfo, StepInfo, TrainerInfo


@hookspec
def agentenv_sandboxes() -> list[SandboxInfo]:  # type: ignore[empty-body]
    """Sandbox providers: where the envs of an episode run. Contract: `agent_env.plugin.sandbox`."""


@hookspec
def agentenv_rewards() -> list[RewardInfo]:  # type: ignore[empty-body]
    """Reward combiners: from scores to the one number that is trained on. Contract: `agent_env.plugin.reward`."""


@hookspec
def agentenv_parsers() -> list[ParserInfo]:  # type: ignore[empty-body]
    """Tool-call parsers: from a model's raw text to calls. Contract: `agent_env.plugin.parser`."""


@hookspec
def agentenv_trainers() -> list[TrainerInfo]:  # type: ignore[empty-body]
    """Trainer adapters: rows for a trainer and the functions it loads. Contract: `agent_env.plugin.trainer`."""


@hookspec
def agentenv_steps() -> list[StepInfo]:  # type: ignore[empty-body]
    """Task step types: one entry of a task's step list. Contract: `agent_env.plugin.step`."""


@hookspec
def agentenv_commands() -> list[CommandInfo]:  # type: ignore[empty-body]
    """Sub-commands of `agentenv`, imported when called."""
