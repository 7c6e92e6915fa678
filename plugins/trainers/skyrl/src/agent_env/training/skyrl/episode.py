"""One episode, played reply by reply: the shared rollout loop, whose model is whoever calls `step`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from agent_env.errors import EpisodeFailed, Failure
from agent_env.rollout.loop import Rollout
from agent_env.rollout.model import ContextFull, Reply
from agent_env.rollout.session import connect as connect_openenv
from agent_env.rollout.supervise import Supervisor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agent_env.plugin.parser import ToolCallParser
    from agent_env.rollout.result import Result
    from agent_env.rollout.row import EpisodeRow
    from agent_env.rollout.session import Connect

_supervisor = Supervisor()


class Episode:
    """Plays one episode; every method runs on the loop of the first.

    Args:
        row: the task and its bounds.
        prompt: the first messages.
        parser: reads the calls out of a reply.
        connect: makes the episode's session.
    """

    def __init__(
        self,
        row: EpisodeRow,
        prompt: Sequence[Mapping[str, Any]],
        parser: ToolCallParser,
        *,
        connect: Connect = connect_openenv,
    ) -> None:
        self._rollout = Rollout(
            row.target,
            prompt,
            row.tools,
            self._model,
            row.settings(),
            parser=parser,
            connect=connect,
        )
        self._replies: asyncio.Queue[Reply | ContextFull] = asyncio.Queue()
        self._moves: asyncio.Queue[None] = asyncio.Queue()
        self._work: asyncio.Task[Result] | None = None
        self._read = len(prompt)

    @property
    def result(self) -> Result:
        """What is known so far; final once the episode is `over`."""
        return self._rollout.result

    @property
    def over(self) -> bool:
        """Whether the episode is scored or failed."""
        return self._work is not None and self._work.done()

    async def start(self) -> None:
        """Get the episode.

        Raises:
            EpisodeFailed: there is none.
        """
        if self._work is None:
            self._work = asyncio.get_running_loop().create_task(_supervisor.play(self._rollout))
            self._work.add_done_callback(lambda _: self._moves.put_nowait(None))
            await self._moved()

    async def step(self, text: str, finish_reason: str = "stop") -> list[dict[str, Any]]:
        """Play one reply; returns the messages that answer it, none once the episode is `over`.

        Raises:
            EpisodeFailed: the episode has no reward.
        """
        if self._work is None or self.over:
            raise EpisodeFailed(self.result.failure or Failure("aborted", "the episode is over, or did not begin"))
        self._read = len(self.result.messages) + 1
        self._replies.put_nowait(Reply({"role": "assistant", "content": text}, finish_reason))
        await self._moved()
        return [] if self.over else self.result.messages[self._read :]

    async def leave(self) -> None:
        """End the open episode as a model does whose context is full: it is scored as it stands.

        Raises:
            EpisodeFailed: the episode has no reward.
        """
        if self._work is not None and not self.over:
            self._replies.put_nowait(ContextFull("the trainer's max_input_length is reached"))
            await self._moved()

    async def close(self) -> None:
        """Give the episode back to the server; what is still unscored fails as aborted. Idempotent."""
        work = self._work
        if work is None:
            return
        if not work.done():
            work.cancel()
            await asyncio.wait({work})
        if work.cancelled():
            self.result.fail(Failure("aborted", "the episode was closed before it was scored"))

    async def _moved(self) -> None:
        """Wait until the rollout asks for a reply or is over."""
        await self._moves.get()
        failure = self.result.failure
        if self.over and failure is not None:
            raise EpisodeFailed(failure)

    async def _model(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]], /) -> Reply:
        del messages, tools
        self._moves.put_nowait(None)
        reply = await self._replies.get()
        if isinstance(reply, ContextFull):
            raise reply
        return reply
