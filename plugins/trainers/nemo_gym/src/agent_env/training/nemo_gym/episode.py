"""One episode as an agent of NeMo Gym plays it: seeded, called tool by tool, verified."""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING, Final

from agent_env.errors import EpisodeFailed, Failure, UsageError
from agent_env.rollout.arguments import Arguments, read_arguments
from agent_env.rollout.calls import Call, new_call_id
from agent_env.rollout.clock import Clock
from agent_env.rollout.opening import close_quietly, failure_of, open_episode
from agent_env.rollout.player import Player
from agent_env.rollout.result import Result
from agent_env.rollout.session import connect as connect_openenv
from agent_env.rollout.tools import tools_difference

if TYPE_CHECKING:
    from agent_env.rollout.opening import Opened, Target
    from agent_env.rollout.session import Connect, TurnReply
    from agent_env.training.nemo_gym.wire import Ending, Row

OVER: Final = "The episode is over: this call was not run."


class Episode:
    """Plays one episode; a failure of it ends it and is in `result`, it is not raised.

    Args:
        target: the episode.
        row: its deadlines, and the tools that the model is offered.
        connect: makes the episode's session.
    """

    def __init__(self, target: Target, row: Row, *, connect: Connect = connect_openenv) -> None:
        self.target = target
        self.result = Result()
        self.over = False
        self._row = row
        self._connect = connect
        self._names: list[str] = []
        self._clock = Clock(math.inf)
        self._lock = asyncio.Lock()
        self._opened: Opened | None = None

    async def begin(self) -> None:
        """Get the episode.

        Raises:
            UsageError: the row does not fit the served bundle.
        """
        async with self._lock:
            started = time.monotonic()
            try:
                self._opened = opened = await open_episode(
                    self.target,
                    None,
                    connect=self._connect,
                    deadline=started + self._row.reset_timeout,
                    list_timeout=self._row.tool_timeout,
                )
                specs = await opened.session.list_tools(timeout=self._row.tool_timeout)
            except EpisodeFailed as error:
                self._fail(error.failure)
            except Exception as error:  # noqa: BLE001  a failure of the episode, whatever it is
                self._fail(failure_of(error, self.target.url))
            else:
                self.result.reset_retries = opened.retries
                self.result.timings.update(opened.turn.timings)
                self._names = [spec.name for spec in specs]
                difference = "" if self._row.tools is None else tools_difference(self._row.tools, specs)
                if difference:
                    self._fail(Failure("aborted", difference))
                    raise UsageError(difference)
            finally:
                self.result.seconds["reset"] = time.monotonic() - started

    async def call(self, name: str, raw: bytes) -> str:
        """Call a tool, ``end_turn`` included, with its arguments as they were sent; returns what the model reads."""
        async with self._lock:
            if self.over or self._opened is None:
                return OVER
            session = self._opened.session
            player = Player(session, self.result, self._clock, self._row.tool_timeout, self._names)
            call = Call(new_call_id(), name, _arguments(raw))
            try:
                ended = await player.play([call], "", self._end_turn)
                if ended is not None and ended.done:
                    self._score(ended, "end_turn")
            except EpisodeFailed as error:
                self._fail(error.failure)
                return OVER
            except Exception as error:  # noqa: BLE001  a failure must not reach the model as a tool's error
                self._fail(failure_of(error, self.target.url))
                return OVER
            except asyncio.CancelledError:
                self._fail(Failure("aborted", f"the call of {name!r} was given up"))
                raise
            finally:
                if self.over:  # the agent may ask the model once more before it verifies: make room for others
                    await self.close()
            return str(self.result.messages.pop()["content"])

    async def finish(self, ending: Ending) -> Result:
        """End the episode as the model left it, and close it. Again it gives the same result."""
        async with self._lock:
            if not self.over:
                self.result.invalid_calls = max(self.result.invalid_calls, ending.invalid_calls)
                self.result.truncated = ending.truncated
                try:
                    turn = await self._end_turn(ending.response)
                    while not turn.done:
                        turn = await self._end_turn("")
                    self._score(turn, "length" if ending.truncated else "no_call")
                except EpisodeFailed as error:
                    self._fail(error.failure)
                except Exception as error:  # noqa: BLE001  as above
                    self._fail(failure_of(error, self.target.url))
        await self.close()
        return self.result

    async def close(self) -> None:
        """Give the episode back to the server; what is still unscored fails as aborted. Idempotent."""
        self._fail(Failure("aborted", "the episode was closed before it was verified"))
        opened, self._opened = self._opened, None
        if opened is not None:
            await close_quietly(opened.session)

    # -- inside -------------------------------------------------------------------------------------------------------

    async def _end_turn(self, response: str) -> TurnReply:
        assert self._opened is not None
        result, timeout = self.result, self._row.reset_timeout
        started = time.monotonic()
        try:
            turn = await self._opened.session.end_turn(
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
        self.over = True
        self.result.reward = float(reward)
        self.result.scores = dict(turn.scores)
        self.result.end_reason = end_reason

    def _fail(self, failure: Failure) -> None:
        if not self.over:
            self.over = True
            self.result.fail(failure)


def _arguments(raw: bytes) -> Arguments:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return Arguments(None, "The arguments are not valid UTF-8. The call was not run.")
    if not text.strip():
        return Arguments({})
    return read_arguments(text)
