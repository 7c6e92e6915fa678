"""The tool calls of an episode."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from agent_env.episode.agent import SHELL, SHELL_OWNER
from agent_env.episode.failures import explain_call, internal
from agent_env.episode.outcome import UnknownTool
from agent_env.errors import EnvError, EpisodeFailed, Failure, SandboxError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent_env.episode.run import EpisodeRun
    from agent_env.episode.tools import ToolList
    from agent_env.plugin.tools import ToolResult


class Calls:
    """Calls tools of the envs, as many at once as its user likes, and can stop them all.

    Attributes:
        made: calls that were answered.
        seconds: time spent in calls, added up.
    """

    __slots__ = ("_run", "_scopes", "_stopped", "made", "seconds")

    def __init__(self, run: EpisodeRun) -> None:
        self.made = 0
        self.seconds = 0.0
        self._run = run
        self._scopes: set[asyncio.Timeout] = set()
        self._stopped: Failure | None = None

    @property
    def running(self) -> bool:
        """Whether a call is under way."""
        return bool(self._scopes)

    def stop(self, failure: Failure) -> None:
        """End the calls under way; each raises this failure."""
        self._stopped = failure
        now = asyncio.get_running_loop().time()
        for scope in self._scopes:
            if not scope.expired():
                scope.reschedule(now)

    async def call(self, name: str, arguments: Mapping[str, Any], timeout: float | None) -> ToolResult:
        """Call one, see `Episode.call_tool`.

        Raises:
            UnknownTool, UsageError: the caller's mistake. EpisodeFailed: the failure that ends the episode.
        """
        tools = self._run.tools
        owner = tools.owners.get(name)
        if owner is None:
            raise UnknownTool(_unknown(name, tools))
        if not owner:
            raise UsageError(f"{name!r} ends the turn: use Episode.end_turn")
        env = None if owner == SHELL else self._run.env_of(owner)
        what = f"{SHELL_OWNER if env is None else env.title}: tool {name!r}"
        began = time.monotonic()
        try:
            async with asyncio.timeout(timeout) as scope:
                self._scopes.add(scope)
                try:
                    if env is None:
                        result = await self._run.agent.call_shell(self._run, arguments, timeout)
                    else:
                        handle = env.agent or env.deployed.handle
                        result = await handle.call_tool(name, arguments, timeout=timeout)
                finally:
                    self._scopes.discard(scope)
                    self.seconds += time.monotonic() - began
        except TimeoutError:
            if self._stopped is not None:
                raise EpisodeFailed(self._stopped) from None
            limit = "too long" if timeout is None else f"longer than {timeout:g} s"
            raise EpisodeFailed(Failure("tool_timeout", f"{what} took {limit}", retryable=True)) from None
        except (EnvError, SandboxError) as error:
            raise EpisodeFailed(await explain_call(error, env, what)) from error
        except Exception as error:
            raise EpisodeFailed(internal(error, what)) from error
        self.made += 1
        return result


def _unknown(name: str, tools: ToolList) -> str:
    from difflib import get_close_matches

    names = [tool.name for tool in tools]
    near = get_close_matches(name, names, n=1)
    meant = f"; did you mean {near[0]!r}?" if near else "."
    return f"there is no tool {name!r}{meant} The tools are: {', '.join(names)}"
