"""An open episode's session, lent to the loop of `agent_env.rollout`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agent_env.plugin.tools import ToolSpec
    from agent_env.rollout.session import Session, ToolReply, TurnReply


class Adopted:
    """A session whose episode is open already: the reset gives its first turn, closing is left to the owner."""

    def __init__(self, session: Session, turn: TurnReply) -> None:
        self._session = session
        self._turn = turn

    async def open(self) -> None:
        """Nothing to do."""

    async def close(self) -> None:
        """Nothing to do."""

    async def reset(
        self,
        *,
        split: str,  # noqa: ARG002 - the episode is got
        index: int,  # noqa: ARG002
        seed: int | None = None,  # noqa: ARG002
        episode_id: str | None = None,  # noqa: ARG002
        timeout: float = 600.0,  # noqa: ARG002
    ) -> TurnReply:
        """The open turn."""
        return self._turn

    async def list_tools(self, *, timeout: float = 60.0) -> Sequence[ToolSpec]:
        """As the session's."""
        return await self._session.list_tools(timeout=timeout)

    async def call_tool(self, name: str, arguments: Mapping[str, Any], *, timeout: float = 60.0) -> ToolReply:
        """As the session's."""
        return await self._session.call_tool(name, arguments, timeout=timeout)

    async def end_turn(
        self, response: str, *, timeout: float = 600.0, invalid_calls: int = 0, truncated: bool = False
    ) -> TurnReply:
        """As the session's."""
        return await self._session.end_turn(response, timeout=timeout, invalid_calls=invalid_calls, truncated=truncated)
