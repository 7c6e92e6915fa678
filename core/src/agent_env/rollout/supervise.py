"""Owns the running rollouts of a process: their wall clock, their abort, and cancellations that must not leak."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from agent_env.errors import Failure

if TYPE_CHECKING:
    from agent_env.rollout.loop import Rollout
    from agent_env.rollout.result import Result

TEARDOWN = 15.0
"""Seconds that a rollout which was ended may take for its teardown."""


class _Live:
    """A rollout under way."""

    def __init__(self, task: asyncio.Task[Result]) -> None:
        self.task = task
        self.loop = asyncio.get_running_loop()
        self.reason: Failure | None = None

    def end(self, reason: Failure) -> None:
        if not self.task.done() and self.reason is None:
            self.reason = reason
            self.task.cancel()


class Supervisor:
    """Plays rollouts so that each ends as a result, whatever happens to it."""

    def __init__(self) -> None:
        self._live: set[_Live] = set()

    async def play(self, rollout: Rollout) -> Result:
        """Play ``rollout`` within its wall clock.

        Raises:
            asyncio.CancelledError: the caller was cancelled; the episode is torn down by then.
        """
        live = _Live(asyncio.get_running_loop().create_task(rollout.play()))
        self._live.add(live)
        try:
            while not live.task.done():
                left = rollout.clock.left
                if left <= 0:
                    seconds = rollout.clock.elapsed
                    live.end(Failure("aborted", f"the rollout was ended after {seconds:.0f} s, its wall clock"))
                    await self._wait_torn_down(live)
                    break
                await asyncio.wait({live.task}, timeout=max(left, 0.05))
        except asyncio.CancelledError:
            live.end(Failure("aborted", "the trainer cancelled the rollout"))
            await self._wait_torn_down(live)
            raise
        finally:
            self._live.discard(live)
        return self._result(live, rollout)

    async def abort(self, message: str) -> int:
        """End every live rollout and wait for their teardown; each returns a failed result. Returns how many."""
        reason = Failure("aborted", message)
        here = asyncio.get_running_loop()
        ours = [live for live in self._live if live.loop is here]
        for live in list(self._live):
            if live.loop is here:
                live.end(reason)
            elif not live.loop.is_closed():
                live.loop.call_soon_threadsafe(live.end, reason)
        if ours:
            await asyncio.wait({live.task for live in ours}, timeout=TEARDOWN)
        return len(ours)

    @staticmethod
    async def _wait_torn_down(live: _Live) -> None:
        """Wait for the end of a cancelled rollout, also when cancelled again meanwhile."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + TEARDOWN
        while not live.task.done() and (left := deadline - loop.time()) > 0:
            try:
                await asyncio.wait({live.task}, timeout=left)
            except asyncio.CancelledError:
                continue

    @staticmethod
    def _result(live: _Live, rollout: Rollout) -> Result:
        result = rollout.result
        if live.reason is not None:
            # Also when it ended well in that very moment: whoever ended it does not count on it any more.
            result.fail(live.reason)
        elif live.task.cancelled():
            result.fail(Failure("aborted", "the rollout was cancelled from within"))
        elif live.task.done() and (error := live.task.exception()) is not None:
            result.fail(Failure("aborted", f"{type(error).__name__}: {error}"))
        return result
