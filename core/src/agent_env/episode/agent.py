"""The agent that is played: the envs it sees, its role, and its sandbox with the tool ``bash``."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from agent_env.errors import SandboxTimeout, UsageError
from agent_env.plugin.tools import ToolResult, ToolSpec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agent_env.episode.run import EpisodeRun
    from agent_env.episode.running import RunningEnv
    from agent_env.episode.tools import Part
    from agent_env.plugin.sandbox import Sandbox, SandboxSpec
    from agent_env.plugin.step import StepModel

SHELL = "bash"
SHELL_OWNER = "the agent's sandbox"
DEFAULT_COMMAND_TIMEOUT = 120.0

SHELL_TOOL = ToolSpec(
    name=SHELL,
    description="Run a shell command in your sandbox. Answers its output and exit code.",
    input_schema={
        "type": "object",
        "properties": {
            "command": {"type": "string", "description": "The command, run by bash."},
            "timeout": {"type": "number", "description": "Seconds after which it is ended; 120 by default."},
        },
        "required": ["command"],
        "additionalProperties": False,
    },
)

_BASH_OR_SH = 'if command -v bash >/dev/null 2>&1; then exec bash -c "$1"; else exec sh -c "$1"; fi'


def uses_agent_sandbox(steps: Sequence[StepModel]) -> bool:
    """Whether a task works in the sandbox of the agent that is played."""
    for step in steps:
        sandbox = getattr(step, "sandbox_name", None)
        if step.type == "verify_sandbox" and sandbox is None:
            return True
        if step.type in {"load_artifact", "run_code"} and getattr(step, "agent_name", None) is not None:
            return True
    return False


class PlayedAgent:
    """What `deploy_agent` says of the agent that is played, and its sandbox."""

    __slots__ = ("_lock", "_sandbox", "env_ids", "has_shell", "provider", "role", "sandbox_name", "spec")

    def __init__(self) -> None:
        self.role: str | None = None
        self.env_ids: frozenset[str] | None = None
        """Deploy steps of the envs that it sees; `None` = all."""
        self.has_shell = False
        self.sandbox_name: str | None = None
        """A deployed sandbox that is its own."""
        self.spec: SandboxSpec | None = None
        self.provider: str | None = None
        self._sandbox: Sandbox | None = None
        self._lock = asyncio.Lock()

    def sees(self, env: RunningEnv) -> bool:
        """Whether the env's tools are the agent's."""
        return self.env_ids is None or env.step in self.env_ids

    async def sandbox(self, run: EpisodeRun) -> Sandbox:
        """The agent's sandbox, created when first used.

        Raises:
            SandboxError: it could not be created.
        """
        if self.sandbox_name is not None:
            return run.sandbox(self.sandbox_name)
        async with self._lock:
            if self._sandbox is None:
                from agent_env.episode.machines import machine
                from agent_env.episode.programs import check_programs, needed

                spec = self.spec or machine("agent", run.id)
                sandbox = await run.services.deployer.create_sandbox(spec, provider=self.provider)
                run.adopt(sandbox)
                await check_programs(sandbox, needed(run.task.steps, {None}))
                self._sandbox = sandbox
            return self._sandbox

    async def shell(self, run: EpisodeRun) -> Part:
        """The part of the tools that the sandbox offers."""
        await self.sandbox(run)
        return (SHELL, SHELL_OWNER, (SHELL_TOOL,))

    async def call_shell(self, run: EpisodeRun, arguments: Mapping[str, Any], timeout: float | None) -> ToolResult:
        """Run the model's command. A command that takes too long is the model's mistake, not the sandbox's.

        Raises:
            SandboxError: the sandbox ended or cannot be reached.
        """
        unknown = sorted(set(arguments) - {"command", "timeout"})
        command, seconds = arguments.get("command"), arguments.get("timeout")
        if unknown or not isinstance(command, str):
            return _error(f"{SHELL} takes 'command' (a string) and, if you like, 'timeout' (seconds)")
        limit = DEFAULT_COMMAND_TIMEOUT
        if seconds is not None:
            if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds > 0:
                return _error("'timeout' must be a number of seconds above 0")
            limit = float(seconds)
        if timeout is not None:
            limit = min(limit, max(0.5, timeout * 0.9))
        sandbox = await self.sandbox(run)
        try:
            done = await sandbox.exec(["sh", "-c", _BASH_OR_SH, SHELL, command], timeout=limit)
        except SandboxTimeout:
            return _error(f"the command was ended after {limit:g} s")
        except ValueError as error:
            return _error(str(error))
        text = done.stdout
        if done.stderr:
            text += ("\n" if text and not text.endswith("\n") else "") + done.stderr
        if done.truncated:
            text += "\n[output cut]"
        if done.exit_code != 0:
            text += ("\n" if text and not text.endswith("\n") else "") + f"[exit code {done.exit_code}]"
        return ToolResult(content=({"type": "text", "text": text},))


def _error(message: str) -> ToolResult:
    return ToolResult(content=({"type": "text", "text": message},), is_error=True)


def agent_envs(run: EpisodeRun, names: Sequence[str] | None) -> frozenset[str] | None:
    """The deploy steps behind ``env_ids`` of a `deploy_agent`; `None` = every env."""
    if names is None:
        return None
    steps: set[str] = set()
    for name in names:
        spec_name = run.services.bundle.env(name).name if not any(e.step == name for e in run.envs) else None
        found = {env.step for env in run.envs if name == env.step or env.spec.name == spec_name}
        if not found:
            raise UsageError(f"env {name!r} is not deployed: the task needs a deploy_env of it before this step")
        steps |= found
    return frozenset(steps)
