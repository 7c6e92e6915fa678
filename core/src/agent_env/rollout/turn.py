"""The end of a turn, and the reward of an episode's last one."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from agent_env.errors import EpisodeFailed, Failure

if TYPE_CHECKING:
    from agent_env.rollout.result import Result
    from agent_env.rollout.session import Session, TurnReply


async def end_turn(session: Session, result: Result, response: str, timeout: float) -> TurnReply:
    """End the open turn with ``response``; ``result`` gives and gets what is counted.

    Raises:
        EpisodeFailed: the env failed, or the turn did not end within ``timeout`` seconds.
    """
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


async def end_turns(session: Session, result: Result, response: str, timeout: float) -> TurnReply:
    """End the open turn with ``response`` and all turns after it, to which nobody replied; returns the last.

    Raises:
        EpisodeFailed: as `end_turn`.
    """
    turn = await end_turn(session, result, response, timeout)
    while not turn.done:
        turn = await end_turn(session, result, "", timeout)
    return turn


def score(result: Result, turn: TurnReply, end_reason: str) -> None:
    """Take the reward and the scores of the last turn.

    Raises:
        EpisodeFailed: there is no reward.
    """
    reward = turn.reward
    if reward is None or isinstance(reward, str) or not math.isfinite(reward):
        raise EpisodeFailed(Failure("no_reward", f"the episode ended with the reward {reward!r}"))
    result.reward = float(reward)
    result.scores = dict(turn.scores)
    result.end_reason = end_reason
