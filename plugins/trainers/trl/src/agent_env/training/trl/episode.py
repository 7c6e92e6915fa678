"""One episode as TRL plays it: begun before the first reply, called tool by tool, scored after the last reply."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent_env.errors import EpisodeFailed, Failure
from agent_env.rollout.arguments import read_arguments
from agent_env.rollout.opening import close_quietly, open_episode
from agent_env.rollout.session import connect as connect_openenv
from agent_env.rollout.steps import OVER, SteppedEpisode
from agent_env.rollout.tools import END_TURN, tool_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agent_env.plugin.tools import ToolSpec
    from agent_env.rollout.opening import Opened, Target
    from agent_env.rollout.result import Result
    from agent_env.rollout.session import Connect, TurnReply


@dataclass(frozen=True, slots=True)
class Bounds:
    """Deadlines in seconds: of one tool call, and of getting an episode and of each turn's end."""

    tool_timeout: float = 60.0
    reset_timeout: float = 600.0


@dataclass(frozen=True, slots=True)
class Ending:
    """How the model left the episode.

    Attributes:
        response: the words of its last reply.
        calls: calls of its last reply that nobody has run, name and arguments.
        invalid_calls: calls whose arguments were no JSON object.
        truncated: the last reply was cut off.
    """

    response: str = ""
    calls: Sequence[tuple[str, Mapping[str, Any]]] = ()
    invalid_calls: int = 0
    truncated: bool = False


class Episode(SteppedEpisode):
    """Plays one episode; all methods run on one event loop, whatever order they are called in.

    Nothing here raises into the trainer but a cancellation: a failure ends the episode and is in `result`.

    Args:
        target: the episode.
        tools: OpenAI function schemas that the model is offered, held against those of the task; `None` = the task's.
        bounds: the deadlines.
        connect: makes the episode's session.
    """

    def __init__(
        self,
        target: Target,
        tools: Sequence[Mapping[str, Any]] | None,
        bounds: Bounds,
        *,
        connect: Connect = connect_openenv,
    ) -> None:
        super().__init__(target, tool_timeout=bounds.tool_timeout, reset_timeout=bounds.reset_timeout)
        self._tools = tools
        self._names = tool_names(tools or ())
        self._bounds = bounds
        self._connect = connect
        self._lock = asyncio.Lock()
        self._opening: asyncio.Task[Opened] | None = None

    @property
    def calls(self) -> int:
        """Calls that were played or answered."""
        return len(self.result.messages)

    async def begin(self) -> None:
        """Begin to get the episode; returns at once."""
        if self._opening is None and not self.over:
            self._opening = asyncio.get_running_loop().create_task(self._open())
            self._opening.add_done_callback(_retrieve)

    async def first_turn(self) -> TurnReply | None:
        """The first turn, `None` when the episode could not be got."""
        opened = await self._opened()
        return None if opened is None else opened.turn

    async def list_tools(self) -> list[ToolSpec]:
        """The task's tools.

        Raises:
            EpisodeFailed: they could not be listed.
        """
        async with self._lock:
            opened = await self._opened()
            if opened is not None:
                try:
                    specs = list(await opened.session.list_tools(timeout=self._bounds.tool_timeout))
                except Exception as error:  # noqa: BLE001  any of them ends the episode
                    self.fail_by(error)
                else:
                    self._names = [spec.name for spec in specs]
                    return specs
        failure = self.result.failure or Failure("aborted", "the episode is closed")
        raise EpisodeFailed(failure)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Call a tool, ``end_turn`` included; returns what the model reads."""
        async with self._lock:
            return await self._call(name, arguments)

    async def finish(self, ending: Ending) -> Result:
        """End the episode as the model left it, and close it. Again it gives the same result."""
        try:
            async with self._lock:
                if not self.over:
                    await self._finish(ending)
        finally:
            await self.close()
        return self.result

    async def close(self) -> None:
        """Give the episode back to the server; what is still unscored fails as aborted. Idempotent."""
        if not self.over:
            self.fail(Failure("aborted", "the episode was closed before it was scored"))
        opening, self._opening = self._opening, None
        if opening is None:
            return
        opening.cancel()
        await asyncio.wait({opening})
        if not opening.cancelled() and opening.exception() is None:
            await close_quietly(opening.result().session)

    # -- inside -------------------------------------------------------------------------------------------------------

    async def _open(self) -> Opened:
        started = time.monotonic()
        try:
            return await open_episode(
                self.target,
                self._tools,
                connect=self._connect,
                deadline=started + self._bounds.reset_timeout,
                list_timeout=self._bounds.tool_timeout,
            )
        finally:
            self.result.seconds["reset"] = time.monotonic() - started

    async def _opened(self) -> Opened | None:
        opening = self._opening
        if opening is None:
            return None
        try:
            await asyncio.wait({opening})
            opened = opening.result()
        except EpisodeFailed as error:
            self.fail(error.failure)
            return None
        except asyncio.CancelledError:
            if not opening.cancelled():
                raise
            return None
        self.result.reset_retries = opened.retries
        self.result.timings.update(opened.turn.timings)
        return opened

    async def _call(self, name: str, arguments: Mapping[str, Any]) -> str:
        opened = None if self.over else await self._opened()
        if opened is None or self.over:
            return OVER
        return await self.play_call(opened.session, self._names, name, read_arguments(dict(arguments)))

    async def _finish(self, ending: Ending) -> None:
        self.result.invalid_calls += ending.invalid_calls
        self.result.truncated = ending.truncated
        response = ending.response
        for name, arguments in ending.calls:
            await self._call(name, arguments)
            if self.over:
                return
            if name == END_TURN:  # what follows it in the reply is not run, and nobody has replied to the next turn
                response = ""
                break
        opened = await self._opened()
        if opened is None:
            return
        await self.play_end(opened.session, response, truncated=ending.truncated)


def _retrieve(task: asyncio.Task[Opened]) -> None:
    """Take a failure that nobody may ever ask for, so that asyncio does not report it."""
    if not task.cancelled():
        task.exception()
