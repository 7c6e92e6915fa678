"""Getting an episode: open, reset, and again when that failed for a passing reason, all on one clock.

Nothing is recorded by the trainer yet, so a fresh attempt costs nothing but time.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_env.errors import AgentEnvError, CapacityReached, EpisodeFailed, Failure, ServerAuthError, ServerError
from agent_env.rollout.tools import tools_difference

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from agent_env.rollout.session import Connect, Session, TurnReply

_log = logging.getLogger(__name__)
CLOSE_TIMEOUT = 10.0
_LATE = "in time (reset_timeout)"
_FULL = "is full and stayed so until reset_timeout ended"


@dataclass(frozen=True, slots=True)
class Target:
    """The episode to play.

    Attributes:
        url: address of the bundle's server.
        split: split of the task.
        index: the task's place in the split.
        seed: for a task with a ``<seed>`` placeholder.
        token: the server's token; kept out of the representation.
    """

    url: str
    split: str
    index: int
    seed: int | None = None
    token: str | None = None

    def __repr__(self) -> str:
        return f"Target({self.url!r}, {self.split!r}, {self.index}, seed={self.seed})"


@dataclass(slots=True)
class Opened:
    """An episode whose first turn is open."""

    session: Session
    turn: TurnReply
    retries: int


async def open_episode(
    target: Target, tools: Sequence[Mapping[str, Any]] | None, *, connect: Connect, deadline: float, list_timeout: float
) -> Opened:
    """Open an episode of ``target``.

    Args:
        target: the episode.
        tools: the tools that the model will be offered, checked against the task's; `None` skips the check.
        connect: makes a session.
        deadline: `time.monotonic` value until which attempts are made.
        list_timeout: seconds for listing the task's tools.

    Raises:
        EpisodeFailed: with the last attempt's failure.
    """
    retries = 0
    told: Failure | None = None
    while True:
        failure, opened = await _attempt(target, tools, connect, deadline, list_timeout)
        if opened is not None:
            opened.retries = retries
            return opened
        assert failure is not None
        if not failure.message.endswith(_LATE):
            told = failure
        elif told is not None:  # the last attempt was too short to hear the reason again
            failure = told if _FULL in told.message else _cut_short(told, retries + 1)
        pause = min(0.2 * 2 ** min(retries, 5), 5.0) * random.uniform(0.5, 1.5)  # noqa: S311
        if not failure.retryable or time.monotonic() + pause >= deadline:
            raise EpisodeFailed(failure)
        retries += 1
        _log.info("%s: %s; attempt %d follows", target, failure, retries + 1)
        await asyncio.sleep(pause)


def _cut_short(told: Failure, attempt: int) -> Failure:
    message = f"{told.message}; attempt {attempt} was cut short by reset_timeout"
    return Failure(told.kind, message, retryable=told.retryable)


async def _attempt(
    target: Target, tools: Sequence[Mapping[str, Any]] | None, connect: Connect, deadline: float, list_timeout: float
) -> tuple[Failure | None, Opened | None]:
    left = max(deadline - time.monotonic(), 0.1)
    # A little less than the whole, so that a full server's own answer comes before our patience ends.
    session = connect(target.url, target.token, left - min(1.0, 0.1 * left))
    opened: Opened | None = None
    try:
        async with asyncio.timeout(left):
            await session.open()
            turn = await session.reset(
                split=target.split, index=target.index, seed=target.seed, timeout=max(deadline - time.monotonic(), 0.1)
            )
            if turn.failure is not None:
                return turn.failure, None
            if turn.done:
                return Failure("env", "the episode ended with its reset, before a turn was opened"), None
            if tools is not None:
                difference = tools_difference(tools, await session.list_tools(timeout=list_timeout))
                if difference:
                    return Failure("env", difference), None
        opened = Opened(session, turn, 0)
        return None, opened
    except TimeoutError:
        return Failure("server", f"no episode from {target.url} {_LATE}", retryable=True), None
    except Exception as error:  # noqa: BLE001  an episode that cannot be opened is a failure of its own
        return failure_of(error, target.url), None
    finally:
        if opened is None:
            await close_quietly(session)


def failure_of(error: Exception, url: str) -> Failure:
    """What an exception of the session means for the episode."""
    if isinstance(error, EpisodeFailed):
        return error.failure
    if isinstance(error, CapacityReached):
        return Failure("server", f"{url} {_FULL}: {error}", retryable=True)
    if isinstance(error, ServerAuthError):
        return Failure("server", str(error))
    if isinstance(error, ServerError):
        return Failure("server", str(error), retryable=error.retryable)
    if isinstance(error, AgentEnvError):
        return Failure("server", str(error))
    if isinstance(error, OSError):
        return Failure("server", f"{url} cannot be reached: {error or type(error).__name__}", retryable=True)
    _log.error("a rollout failed in AgentEnv itself", exc_info=error)
    return Failure("aborted", f"AgentEnv failed: {type(error).__name__}: {error}")


async def close_quietly(session: Session) -> None:
    """Close a session within a deadline; how it ends does not matter to anybody any more."""
    try:
        async with asyncio.timeout(CLOSE_TIMEOUT):
            await session.close()
    except Exception as error:  # noqa: BLE001
        _log.debug("closing a session: %r", error)
