"""One episode as TRL plays it: begun before the first reply, called tool by tool, scored after the last reply."""

from __future__ import annotations

import asyncio
import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from agent_env.errors import EpisodeFailed, Failure
from agent_env.rollout.arguments import read_arguments
from agent_env.rollout.calls import Call, new_call_id
from agent_env.rollout.clock import Clock
from agent_env.rollout.opening import close_quietly, failure_of, open_episode
from agent_env.rollout.player import Player
from agent_env.rollout.result import Result
from agent_env.rollout.session import connect as connect_openenv
from agent_env.rollout.tools import END_TURN, tool_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agent_env.plugin.tools import ToolSpec
    from agent_env.rollout.opening import Opened, Target
    from agent_env.rollout.session import Connect, Session, TurnReply

OVER: Final = "The episode is over: this call was not run."


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


class Episode:
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
        self.target = target
        self.result = Result()
        self._tools = tools
        self._names = tool_names(tools or ())
        self._bounds = bounds
        self._connect = connect
        self._clock = Clock(math.inf)
        self._lock = asyncio.Lock()
        self._opening: asyncio.Task[Opened] | None = None
        self._over = False

    @property
    def over(self) -> bool:
        """Whether the episode is scored or failed."""
        return self._over

    @property
    def calls(self) -> int:
        """Calls that were played or answered."""
        return len(self.result.messages)

    async def begin(self) -> None:
        """Begin to get the episode; returns at once."""
        if self._opening is None and not self._over:
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
                    self._fail(failure_of(error, self.target.url))
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
                if not self._over:
                    await self._finish(ending)
        finally:
            await self.close()
        return self.result

    async def close(self) -> None:
        """Give the episode back to the server; what is still unscored fails as aborted. Idempotent."""
        if not self._over:
            self._fail(Failure("aborted", "the episode was closed before it was scored"))
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
            self._fail(error.failure)
            return None
        except asyncio.CancelledError:
            if not opening.cancelled():
                raise
            return None
        self.result.reset_retries = opened.retries
        self.result.timings.update(opened.turn.timings)
        return opened

    async def _call(self, name: str, arguments: Mapping[str, Any]) -> str:
        opened = None if self._over else await self._opened()
        if opened is None or self._over:
            return OVER
        player = Player(opened.session, self.result, self._clock, self._bounds.tool_timeout, self._names)
        call = Call(new_call_id(), name, read_arguments(dict(arguments)))
        try:
            ended = await player.play([call], "", lambda text: self._end_turn(opened.session, text))
            if ended is not None and ended.done:
                self._score(ended, "end_turn")
        except EpisodeFailed as error:
            self._fail(error.failure)
            return OVER
        except Exception as error:  # noqa: BLE001  a failure must not reach the trainer as a tool's error
            self._fail(failure_of(error, self.target.url))
            return OVER
        except asyncio.CancelledError:
            self._fail(Failure("aborted", f"the call of {name!r} was given up"))
            raise
        return str(self.result.messages[-1]["content"])

    async def _finish(self, ending: Ending) -> None:
        self.result.invalid_calls += ending.invalid_calls
        self.result.truncated = ending.truncated
        response = ending.response
        for name, arguments in ending.calls:
            await self._call(name, arguments)
            if self._over:
                return
            if name == END_TURN:  # what follows it in the reply is not run, and nobody has replied to the next turn
                response = ""
                break
        opened = await self._opened()
        if opened is None:
            return
        try:
            turn = await self._end_turn(opened.session, response)
            while not turn.done:
                turn = await self._end_turn(opened.session, "")
            self._score(turn, "length" if ending.truncated else "no_call")
        except EpisodeFailed as error:
            self._fail(error.failure)
        except Exception as error:  # noqa: BLE001  as above
            self._fail(failure_of(error, self.target.url))

    async def _end_turn(self, session: Session, response: str) -> TurnReply:
        result, timeout = self.result, self._bounds.reset_timeout
        started = time.monotonic()
        try:
            turn = await session.end_turn(
                response, timeout=timeout, invalid_calls=result.invalid_calls, truncated=result.truncated
            )
        except TimeoutError as error:
            words = f"the turn did not end within {timeout:g} s (reset_timeout)"
            raise EpisodeFailed(Failure("verifier", words)) from error
        finally:
            result.seconds["end"] += time.monotonic() - started
        result.timings.update(turn.timings)
        if turn.failure is not None:
            raise EpisodeFailed(turn.failure)
        return turn

    def _score(self, turn: TurnReply, end_reason: str) -> None:
        reward = turn.reward
        if reward is None or not math.isfinite(reward):
            raise EpisodeFailed(Failure("no_reward", f"the episode ended with the reward {reward!r}"))
        self._over = True
        self.result.reward = float(reward)
        self.result.scores = dict(turn.scores)
        self.result.end_reason = end_reason

    def _fail(self, failure: Failure) -> None:
        if not self._over:
            self._over = True
            self.result.fail(failure)


def _retrieve(task: asyncio.Task[Opened]) -> None:
    """Take a failure that nobody may ever ask for, so that asyncio does not report it."""
    if not task.cancelled():
        task.exception()
