"""An episode whose calls come one by one, from a trainer that holds the conversation itself."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Final

from agent_env.errors import EpisodeFailed, Failure
from agent_env.rollout.calls import Call, new_call_id
from agent_env.rollout.clock import Clock
from agent_env.rollout.opening import failure_of
from agent_env.rollout.player import Player
from agent_env.rollout.result import Result
from agent_env.rollout.turn import end_turn, end_turns, score

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent_env.rollout.arguments import Arguments
    from agent_env.rollout.opening import Target
    from agent_env.rollout.session import Session, TurnReply

OVER: Final = "The episode is over: this call was not run."


class SteppedEpisode:
    """What such an episode does once it is open. A failure ends it and is in `result`; only cancellations are raised.

    Args:
        target: the episode.
        tool_timeout: seconds of one tool call.
        reset_timeout: seconds of each turn's end.

    Attributes:
        result: what became of it.
        over: whether it is scored or failed.
    """

    def __init__(self, target: Target, *, tool_timeout: float, reset_timeout: float) -> None:
        self.target = target
        self.result = Result()
        self.over = False
        self._tool_timeout = tool_timeout
        self._reset_timeout = reset_timeout
        self._clock = Clock(math.inf)

    async def play_call(self, session: Session, names: Sequence[str], name: str, arguments: Arguments) -> str:
        """Call a tool, ``end_turn`` included; returns what the model reads, `OVER` when that ended in a failure.

        Args:
            session: the open session.
            names: tools that there are.
            name: the tool.
            arguments: its arguments.
        """
        player = Player(session, self.result, self._clock, self._tool_timeout, names)
        call = Call(new_call_id(), name, arguments)

        async def end(response: str) -> TurnReply:
            return await end_turn(session, self.result, response, self._reset_timeout)

        try:
            ended = await player.play([call], "", end)
            if ended is not None and ended.done:
                self._score(ended, "end_turn")
        except asyncio.CancelledError:
            self.fail(Failure("aborted", f"the call of {name!r} was given up"))
            raise
        except Exception as error:  # noqa: BLE001  a failure must not reach the model as a tool's error
            self.fail_by(error)
            return OVER
        return str(self.result.messages[-1]["content"])

    async def play_end(self, session: Session, response: str, *, truncated: bool) -> None:
        """End the open turn with the model's last words, and all turns after it, which scores the episode."""
        self.result.truncated = truncated
        try:
            turn = await end_turns(session, self.result, response, self._reset_timeout)
            self._score(turn, "length" if truncated else "no_call")
        except Exception as error:  # noqa: BLE001  as above
            self.fail_by(error)

    def fail(self, failure: Failure) -> None:
        """End as failed, unless it is over."""
        if not self.over:
            self.over = True
            self.result.fail(failure)

    def fail_by(self, error: Exception) -> None:
        """End as failed by what was raised, unless it is over."""
        if not self.over:
            self.fail(error.failure if isinstance(error, EpisodeFailed) else failure_of(error, self.target.url))

    def _score(self, turn: TurnReply, end_reason: str) -> None:
        score(self.result, turn, end_reason)
        self.over = True
