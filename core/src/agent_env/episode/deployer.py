"""The seam between the engine and the place where envs run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from agent_env.plugin.sandbox import Resources

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from agent_env.bundle import Bundle, EnvSpec
    from agent_env.errors import Problem
    from agent_env.plugin.sandbox import CodeRequest, Isolation, Sandbox, SandboxSpec
    from agent_env.plugin.step import EnvHandle


@dataclass(frozen=True, slots=True)
class EnvRequest:
    """An env to deploy.

    Attributes:
        env: which.
        episode_id: the episode that it is for.
        provider: name of a sandbox provider that the task asks for; `None` = the server's own.
        resources: limits that the task asks for.
        ttl_s: seconds after which the env ends by itself.
    """

    env: EnvSpec
    episode_id: str
    provider: str | None = None
    resources: Resources = field(default_factory=Resources)
    ttl_s: float = 7200.0


class DeployedEnv(Protocol):
    """A running env of one episode."""

    @property
    def handle(self) -> EnvHandle:
        """What loads, configures and reads the env."""
        ...

    async def as_role(self, role: str) -> EnvHandle:
        """A handle whose tool calls carry this role; it is closed with the env."""
        ...

    def mcp_url(self) -> AbstractAsyncContextManager[str]:
        """An http URL of the MCP endpoint on loopback, for code of the bundle; it can be used inside the ``with``.

        Raises:
            SandboxError: the env cannot be reached that way.
        """
        ...

    @property
    def isolation(self) -> Isolation | None:
        """How far it is from the server; `None` = it is no sandbox."""
        ...

    async def why_gone(self) -> str | None:
        """How the env ended, exit code and last output included; `None` while it runs or when that is not known."""
        ...

    async def close(self) -> None:
        """End it. Idempotent."""
        ...


class Deployer(Protocol):
    """Deploys envs and sandboxes and runs code beside them. `agent_env.testing.in_process` has one without sandboxes.

    All methods but `check` are called from one event loop. What an episode deployed is closed by the episode.
    """

    @property
    def isolation(self) -> Isolation | None:
        """What envs get that ask for nothing else; known once it has started. `None` = there are no sandboxes."""
        ...

    def check(self, bundle: Bundle) -> Sequence[Problem]:
        """Tasks that cannot be deployed here, each with why: they are left out."""
        ...

    async def start(self, bundle: Bundle, *, progress: Callable[[str], None] | None = None) -> None:
        """Get ready; images are prepared in the background."""
        ...

    async def prepared(self) -> None:
        """Wait until every image is prepared.

        Raises:
            SandboxError: one could not be.
        """
        ...

    async def deploy_env(self, request: EnvRequest) -> DeployedEnv:
        """A fresh env that answers. All or nothing, safe to cancel.

        Raises:
            SandboxError, EnvError: it could not be deployed.
        """
        ...

    async def create_sandbox(self, spec: SandboxSpec, *, provider: str | None = None) -> Sandbox:
        """A fresh sandbox; ``spec.image`` may be `HostImage` for "whatever this provider offers as a machine".

        Raises:
            SandboxError: it could not be created.
        """
        ...

    async def run_code(self, env: EnvSpec | None, request: CodeRequest, *, provider: str | None = None) -> Any:
        """Run code of the bundle in a child process, in ``env``'s Python environment or a plain one.

        Raises:
            CodeError, SandboxError: as `agent_env.plugin.sandbox.SandboxProvider.run_code`.
        """
        ...

    async def close(self) -> None:
        """End everything that is still there. Idempotent."""
        ...
