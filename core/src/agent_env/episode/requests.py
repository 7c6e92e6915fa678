"""From the fields of a deploy step to what is asked of a sandbox provider."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_env.episode.deployer import EnvRequest
from agent_env.plugin.sandbox import Resources

if TYPE_CHECKING:
    from agent_env.bundle import EnvSpec
    from agent_env.bundle.steps.deploy import DeployEnv

LOCAL = "local"
DEFAULT_DISK_GB = 10


def provider_of(sandbox_type: str | None) -> str | None:
    """The provider that a step asks for; ``local`` is the server's own choice."""
    return None if sandbox_type in {None, LOCAL} else sandbox_type


def disk_mb(gigabytes: float | None) -> int | None:
    """A disk limit; the format's default counts as not asked for."""
    return None if gigabytes is None or gigabytes == DEFAULT_DISK_GB else round(gigabytes * 1024)


def env_request(step: DeployEnv, env: EnvSpec, *, episode_id: str) -> EnvRequest:
    """What the step asks for."""
    return EnvRequest(
        env=env,
        episode_id=episode_id,
        provider=provider_of(step.sandbox_type),
        resources=Resources(cpu=step.cpu, memory_mb=step.memory_mb, disk_mb=disk_mb(step.disk_size_gb)),
        ttl_s=step.ttl_seconds,
    )
