"""What the loop needs of an episode's connection; `agent_env.openenv.client.Session` has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from agent_env.errors import Failure
    from agent_env.plugin.tools import ToolResult, ToolSpec


class TurnReply(Protocol):
    """Answer to a reset or to the end of a turn."""

    @property
    def done(self) -> bool: ...
    @property
    def prompt(self) -> str | None: ...
    @property
    def system_prompt(self) -> str | None: ...
    @property
    def task(self) -> Mapping[str, Any]: ...
    @property
    def reward(self) -> float | None: ...
    @property
    def scores(self) -> Mapping[str, float]: ...
    @property
    def failure(self) -> Failure | None: ...
    @property
    def timings(self) -> Mapping[str, float]: ...


class ToolReply(Protocol):
    """Answer to a tool call; with ``failure`` the episode is over."""

    @property
    def result(self) -> ToolResult | None: ...
    @property
    def error_type(self) -> str | None: ...
    @property
    def message(self) -> str | None: ...
    @property
    def failure(self) -> Failure | None: ...
    @property
    def timings(self) -> Mapping[str, float]: ...


class Session(Protocol):
    """One episode at a time over one connection that never reconnects in silence."""

    async def open(self) -> None: ...
    async def close(self) -> None: ...
    async def reset(
        self,
        *,
        split: str,
        index: int,
        seed: int | None = None,
        episode_id: str | None = None,
        timeout: float = 600.0,
    ) -> TurnReply: ...
    async def list_tools(self, *, timeout: float = 60.0) -> Sequence[ToolSpec]: ...
    async def call_tool(self, name: str, arguments: Mapping[str, Any], *, timeout: float = 60.0) -> ToolReply: ...
    async def end_turn(
        self, response: str, *, timeout: float = 600.0, invalid_calls: int = 0, truncated: bool = False
    ) -> TurnReply: ...


if TYPE_CHECKING:
    Connect = Callable[[str, str | None, float], Session]
    """``connect(url, token, wait)``: a session that is not open yet; ``wait`` = seconds it may stand in line."""


def connect(url: str, token: str | None, wait: float) -> Session:
    """The session of a bundle's server."""
    from agent_env.openenv.client import Session as OpenEnvSession

    return OpenEnvSession(url, token=token, wait=wait)
