"""What an episode has deployed and recorded."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent_env.bundle import EnvSpec
    from agent_env.episode.access import ToolAccess
    from agent_env.episode.deployer import DeployedEnv
    from agent_env.errors import EnvError
    from agent_env.plugin.sandbox import Sandbox
    from agent_env.plugin.step import EnvHandle

log = logging.getLogger("agent_env.episode")


@dataclass(slots=True)
class RunningEnv:
    """An env of the episode.

    Attributes:
        step: id of the step that deployed it.
        position: the step's place in the task.
        spec: the env in the bundle.
        provider: the provider that the task asked for, or `None`.
        deployed: the env.
        access: rules of tool access that the engine keeps for it, or `None`.
        agent: what the played agent's calls go through.
    """

    step: str
    position: int
    spec: EnvSpec
    provider: str | None
    deployed: DeployedEnv
    access: ToolAccess | None = None
    agent: EnvHandle | None = None

    @property
    def title(self) -> str:
        """How messages call it."""
        return f"env {self.spec.name!r}"

    def named(self, error: EnvError, what: str) -> EnvError:
        """The same error, its words with the env's name before them."""
        text = str(error)
        if self.title not in text:
            error.args = (f"{self.title}: {what}: {text}",)
        return error


@dataclass(frozen=True, slots=True)
class Verification:
    """What a scoring step recorded; ``name`` is the verifier's id, by which other steps call it."""

    step: str
    name: str
    score: float
    rows: tuple[Mapping[str, Any], ...]


async def close_quietly(resource: DeployedEnv | Sandbox, timeout: float) -> None:
    """Close it within ``timeout`` seconds; what goes wrong is logged."""
    try:
        async with asyncio.timeout(timeout):
            await resource.close()
    except Exception as error:  # noqa: BLE001
        what = getattr(resource, "id", None) or type(resource).__name__
        log.warning("teardown of %s: %s: %s", what, type(error).__name__, error)
