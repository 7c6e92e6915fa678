"""The toolset: an episode's tools over MCP, for harnesses that are programs of their own (``null``, ``bash``, …)."""

# pyright: basic, reportMissingImports=false
# mypy: disable-error-code="misc"

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from agent_env.training.verifiers import live, toolserver

import verifiers.v1 as vf  # type: ignore[import-not-found]

if TYPE_CHECKING:
    from agent_env.training.verifiers.episode import Episode

HARNESS: Final = "agentenv-trainer-verifiers"
# verifiers asks the task's class for its tools, in the task of the rollout whose set-up ran just before.
_address: ContextVar[str | None] = ContextVar("agentenv_tools", default=None)


class BundleToolset(vf.Toolset[vf.ToolsetConfig]):
    """The tools of one episode, under their own names; they are served by the worker that holds the episode."""

    TOOL_PREFIX = None

    @classmethod
    def offered(cls) -> list[Any]:
        """The toolset of this rollout; none when its harness plays the episode itself."""
        address = _address.get()
        return [] if address is None else [cls(vf.ToolsetConfig(url=address))]


async def offer_tools(trace: Any, episode: Episode) -> None:
    """Serve the episode's tools, unless our own harness plays it."""
    harness = trace.agent.config.harness
    if harness is not None and harness.id == HARNESS:
        _address.set(None)
        return
    address = await toolserver.share(episode)
    live.also(trace.id, lambda: toolserver.withdraw(address))
    _address.set(address)
