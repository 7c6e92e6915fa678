"""Steps of the agent that is played."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_env.episode.agent import agent_envs
from agent_env.episode.machines import machine
from agent_env.episode.requests import disk_mb, provider_of
from agent_env.plugin.sandbox import Resources, SandboxSpec

if TYPE_CHECKING:
    from agent_env.bundle.steps.agent import DeployAgent, PromptAgent
    from agent_env.episode.run import EpisodeRun


async def run_deploy_agent(step: DeployAgent, episode: EpisodeRun) -> None:
    """Say which envs the agent sees, as whom, and what its sandbox is like. The model itself is the trainer's."""
    agent = episode.agent
    names = [*(step.env_ids or ()), *([step.env_step_id] if step.env_step_id is not None else [])]
    agent.env_ids = agent_envs(episode, None if step.env_ids is None and step.env_step_id is None else names)
    agent.role = step.role if step.role not in {None, "default"} else None
    agent.sandbox_name = step.sandbox_name
    if step.system_prompt is not None:
        episode.turns.system_prompt = step.system_prompt
    agent.provider = provider_of(step.sandbox_type)
    resources = Resources(cpu=step.cpu, memory_mb=step.memory_mb, disk_mb=disk_mb(step.disk_size_gb))
    plain = machine("agent", episode.id, resources=resources, ttl_s=step.ttl_seconds or 7200.0)
    agent.spec = SandboxSpec(
        image=plain.image,
        serves=False,
        env=step.env_vars or {},
        resources=resources,
        ttl_s=plain.ttl_s,
        label=plain.label,
        labels=plain.labels,
    )
    episode.stale = True


async def run_prompt_agent(step: PromptAgent, episode: EpisodeRun) -> None:
    """Open a turn and wait for its end."""
    await episode.ask(step.id, step.prompt, system_prompt=step.system_prompt, prompt_id=step.prompt_id or step.id)
