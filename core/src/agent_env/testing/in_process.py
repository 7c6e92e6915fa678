"""Envs inside the engine's own process: no sandbox, no socket. For tests and for benchmarks of the wire alone.

A bundle cannot name them: they take the place of the whole deployment, as
``Engine(bundle, deployer=InProcessDeployer(...))``.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agent_env.errors import CodeError, EnvError, EnvTimeout, SandboxUnsupported
from agent_env.plugin.tools import ToolResult, ToolSpec

if TYPE_CHECKING:
    from agent_env.bundle import Bundle, EnvSpec
    from agent_env.episode.deployer import EnvRequest
    from agent_env.errors import Problem
    from agent_env.plugin.sandbox import CodeRequest, Sandbox, SandboxSpec

ToolFunction = Callable[[Mapping[str, Any]], Any]
"""Takes the arguments; returns a text or a `ToolResult`, or an awaitable of one."""


@dataclass
class InProcessEnv:
    """An env made of functions; one object per episode. It is its own `agent_env.plugin.step.EnvHandle`.

    Attributes:
        name: for messages.
        tools: the functions by their spec's name.
        specs: what `list_tools` answers.
        parts: the data, as `data_add` adds it.
        extensions: functions by extension URI.
        gone: how the env ended, to play a death.
    """

    name: str = "in-process"
    tools: Mapping[str, ToolFunction] = field(default_factory=dict[str, ToolFunction])
    specs: Sequence[ToolSpec] = ()
    parts: list[Mapping[str, Any]] = field(default_factory=list[Mapping[str, Any]])
    extensions: Mapping[str, Callable[[Mapping[str, Any]], Any]] = field(
        default_factory=dict[str, Callable[[Mapping[str, Any]], Any]]
    )
    gone: str | None = None
    closed: bool = False
    role: str | None = None

    # -- the handle ---------------------------------------------------------------------------------------------------

    async def list_tools(self) -> Sequence[ToolSpec]:
        """The specs."""
        self._alive()
        return self.specs

    async def call_tool(self, name: str, arguments: Mapping[str, Any], *, timeout: float | None = None) -> ToolResult:
        """Call the function."""
        self._alive()
        function = self.tools.get(name)
        if function is None:
            return ToolResult(content=({"type": "text", "text": f"no tool {name!r}"},), is_error=True)
        answer = function(arguments)
        if inspect.isawaitable(answer):
            try:
                async with asyncio.timeout(timeout):
                    answer = await answer
            except TimeoutError:
                raise EnvTimeout(f"tool {name!r} took longer than {timeout:g} s") from None
        self._alive()
        if isinstance(answer, ToolResult):
            return answer
        return ToolResult(content=({"type": "text", "text": str(answer)},))

    async def data_reset(self) -> None:
        """Forget the parts."""
        self._alive()
        self.parts.clear()

    async def data_add(self, parts: Sequence[Mapping[str, Any]]) -> None:
        """Keep the parts."""
        self._alive()
        self.parts.extend(parts)

    async def data_get(self) -> Sequence[Mapping[str, Any]]:
        """The parts."""
        self._alive()
        return list(self.parts)

    async def call_extension(
        self, uri: str, params: Mapping[str, Any], *, method: str | None = None, timeout: float = 30.0
    ) -> Any:
        """Call the extension's function."""
        del method, timeout
        self._alive()
        function = self.extensions.get(uri)
        if function is None:
            raise EnvError(f"env {self.name!r} does not advertise the extension {uri!r}")
        answer = function(params)
        return await answer if inspect.isawaitable(answer) else answer

    def _alive(self) -> None:
        if self.gone is not None:
            raise EnvError("connection refused")

    # -- the deployed env ---------------------------------------------------------------------------------------------

    @property
    def handle(self) -> InProcessEnv:
        """Itself."""
        return self

    async def as_role(self, role: str) -> InProcessEnv:
        """Itself; it remembers the role."""
        self.role = role
        return self

    @asynccontextmanager
    async def mcp_url(self) -> AsyncGenerator[str, None]:
        """A URL that nothing answers: the code is played too."""
        yield "http://127.0.0.1:1/mcp"

    @property
    def isolation(self) -> None:
        """It is in no sandbox."""

    async def why_gone(self) -> str | None:
        """What `gone` says."""
        return self.gone

    async def close(self) -> None:
        """Mark it as closed."""
        self.closed = True


class InProcessDeployer:
    """Makes envs with functions of the test.

    Args:
        envs: by env name of the bundle, ``make()`` or ``async make()`` for a fresh env.
        code: plays verifier and script code, ``code(env name or None, request)``; sync or async.
        sandboxes: makes sandboxes.
    """

    def __init__(
        self,
        envs: Mapping[str, Callable[[], InProcessEnv | Awaitable[InProcessEnv]]],
        *,
        code: Callable[[str | None, CodeRequest], Any] | None = None,
        sandboxes: Callable[[SandboxSpec], Awaitable[Sandbox]] | None = None,
    ) -> None:
        self._envs = dict(envs)
        self._code = code
        self._sandboxes = sandboxes
        self.deployed: list[InProcessEnv] = []
        """Envs that are not closed."""

    @property
    def isolation(self) -> None:
        """There are no sandboxes."""

    def check(self, bundle: Bundle) -> Sequence[Problem]:
        """Nothing is wrong."""
        del bundle
        return ()

    async def start(self, bundle: Bundle, *, progress: Callable[[str], None] | None = None) -> None:
        """Nothing to do."""

    async def prepared(self) -> None:
        """Nothing to do."""

    async def deploy_env(self, request: EnvRequest) -> InProcessEnv:
        """A fresh env."""
        make = self._envs.get(request.env.name)
        if make is None:
            raise SandboxUnsupported(f"no in-process env stands for {request.env.name!r}")
        made = make()
        env = await made if inspect.isawaitable(made) else made
        self.deployed = [other for other in self.deployed if not other.closed]
        self.deployed.append(env)
        return env

    async def create_sandbox(self, spec: SandboxSpec, *, provider: str | None = None) -> Sandbox:
        """A sandbox of the test's own."""
        del provider
        if self._sandboxes is None:
            raise SandboxUnsupported("there are no sandboxes inside the engine's process")
        return await self._sandboxes(spec)

    async def run_code(self, env: EnvSpec | None, request: CodeRequest, *, provider: str | None = None) -> Any:
        """What the test's ``code`` answers."""
        del provider
        if self._code is None:
            raise CodeError("no code runs inside the engine's process")
        answer = self._code(None if env is None else env.name, request)
        return await answer if inspect.isawaitable(answer) else answer

    async def close(self) -> None:
        """Nothing is left."""
        self.deployed = [env for env in self.deployed if not env.closed]
