"""Steps that deploy or reset envs and sandboxes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_env.bundle.steps.agent import DeployAgent
from agent_env.episode.machines import machine
from agent_env.episode.programs import check_programs, needed
from agent_env.episode.requests import disk_mb, env_request, provider_of
from agent_env.episode.running import RunningEnv
from agent_env.errors import EnvError, SandboxUnsupported, UsageError
from agent_env.plugin.sandbox import ImageRef, Resources, SandboxSpec

if TYPE_CHECKING:
    from agent_env.bundle.steps.deploy import DeployEnv, DeploySandbox, ResetEnv
    from agent_env.episode.run import EpisodeRun
    from agent_env.plugin.sandbox import Image

DEFAULT_CPU = 1.0
DEFAULT_MEMORY_MB = 8192


async def run_deploy_env(step: DeployEnv, episode: EpisodeRun) -> None:
    """Deploy a fresh env."""
    spec = episode.services.bundle.env(step.env_id)
    request = env_request(step, spec, episode_id=episode.id)
    deployed = await episode.services.deployer.deploy_env(request)
    episode.adopt(deployed)
    episode.envs.append(RunningEnv(step.id, episode.position(step.id), spec, request.provider, deployed))
    episode.stale = True


async def run_reset_env(step: ResetEnv, episode: EpisodeRun) -> None:
    """Empty the env's data."""
    env = episode.running_env(step.env_id)
    try:
        await env.deployed.handle.data_reset()
    except EnvError as error:
        raise env.named(error, "data/reset") from error


async def run_deploy_sandbox(step: DeploySandbox, episode: EpisodeRun) -> None:
    """Deploy a sandbox that serves nothing."""
    if step.sandbox_name in episode.sandboxes:
        raise UsageError(f"a sandbox named {step.sandbox_name!r} is deployed already")
    resources = Resources(
        cpu=None if step.cpu == DEFAULT_CPU else step.cpu,
        memory_mb=None if step.memory_mb == DEFAULT_MEMORY_MB else step.memory_mb,
        disk_mb=disk_mb(step.disk_size_gb),
    )
    plain = machine(step.sandbox_name, episode.id, resources=resources, ttl_s=step.ttl_seconds)
    spec = SandboxSpec(
        image=plain.image if step.image is None else _named_image(step.image, episode),
        serves=False,
        env=step.env_vars or {},
        resources=resources,
        ttl_s=step.ttl_seconds,
        label=step.sandbox_name,
        labels=plain.labels,
    )
    try:
        sandbox = await episode.services.deployer.create_sandbox(spec, provider=provider_of(step.sandbox_type))
    except SandboxUnsupported as error:
        raise SandboxUnsupported(f"sandbox {step.sandbox_name!r}: {error}", provider=error.provider) from error
    episode.adopt(sandbox)
    steps = episode.task.steps
    is_agents = any(isinstance(other, DeployAgent) and other.sandbox_name == step.sandbox_name for other in steps)
    await check_programs(sandbox, needed(steps, {step.sandbox_name, None} if is_agents else {step.sandbox_name}))
    episode.sandboxes[step.sandbox_name] = sandbox


def _named_image(name: str, episode: EpisodeRun) -> Image:
    """The image of a bundle's artifact of this name or id, else the image of this name."""
    for artifact in episode.services.bundle.artifacts.values():
        if artifact.image is not None and name in {artifact.name, artifact.id}:
            return artifact.image
    return ImageRef(name)
