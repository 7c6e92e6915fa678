"""The turns of an episode: its steps open them, its player ends them. Nothing here polls."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_env.episode.outcome import Turn
from agent_env.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


@dataclass(frozen=True, slots=True)
class Reply:
    """A turn that ended.

    Attributes:
        turn: the turn.
        step: id of the step that opened it.
        text: the agent's reply.
    """

    turn: Turn
    step: str
    text: str


class Turns:
    """One turn open at a time, in the order in which steps asked for them."""

    __slots__ = ("_lock", "_next", "_reply", "open", "replies", "started", "system_prompt")

    def __init__(self) -> None:
        self.open: Turn | None = None
        self.replies: list[Reply] = []
        self.started = 0
        self.system_prompt: str | None = None
        self._lock = asyncio.Lock()
        self._next: asyncio.Future[Turn | None] | None = None
        self._reply: asyncio.Future[str] | None = None

    # -- the side of the steps ----------------------------------------------------------------------------------------

    async def ask(
        self,
        step: str,
        prompt: str,
        *,
        system_prompt: str | None,
        prompt_id: str,
        ready: Callable[[], Awaitable[None]],
    ) -> str:
        """Open a turn when no other is open, and wait for its reply.

        Args:
            step: id of the step that asks.
            prompt: what the agent is asked.
            system_prompt: takes the place of the system prompt from here on.
            prompt_id: id of the prompt, unique in the episode.
            ready: awaited before the turn opens.
        """
        async with self._lock:
            if any(reply.turn.prompt_id == prompt_id for reply in self.replies):
                raise UsageError(f"two prompts have the id {prompt_id!r}: give each its own")
            if system_prompt is not None:
                self.system_prompt = system_prompt
            await ready()
            self.started += 1
            turn = Turn(self.started, prompt, self.system_prompt, prompt_id)
            self.open = turn
            self._reply = asyncio.get_running_loop().create_future()
            self._announce(turn)
            try:
                text = await self._reply
            finally:
                self.open = None
                self._reply = None
            self.replies.append(Reply(turn, step, text))
            return text

    def finish(self) -> None:
        """No turn will follow."""
        self._announce(None)

    def _announce(self, turn: Turn | None) -> None:
        if self._next is not None and not self._next.done():
            self._next.set_result(turn)

    # -- the side of the player ---------------------------------------------------------------------------------------

    def expect(self) -> asyncio.Future[Turn | None]:
        """What comes next: a turn, or `None` when the episode is over. Ask before causing it."""
        self._next = asyncio.get_running_loop().create_future()
        return self._next

    def answer(self, text: str) -> None:
        """End the open turn."""
        if self.open is None or self._reply is None or self._reply.done():
            raise UsageError("no turn is open")
        self.open = None
        self._reply.set_result(text)
