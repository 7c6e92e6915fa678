"""Room for sessions: a count, and a line in front of it."""

from __future__ import annotations

import asyncio

from agent_env.errors import UsageError


class Slots:
    """At most ``limit`` slots are taken at once; whoever waits gets one first come, first served.

    A slot that is given back goes straight to the head of the line, so `take` cannot overtake anybody.
    """

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise UsageError(f"max_concurrent_envs must be at least 1, not {limit}")
        self.limit = limit
        self.active = 0
        self._line: dict[asyncio.Future[bool], None] = {}  # a set that keeps its order

    @property
    def waiting(self) -> int:
        """How many wait in line."""
        return len(self._line)

    def take(self) -> bool:
        """Take a slot if there is one."""
        if self.active >= self.limit:
            return False
        self.active += 1
        return True

    async def wait(self, seconds: float) -> bool:
        """Take a slot, waiting in line for it; False when ``seconds`` passed. Cancelling leaves the line."""
        if self.take():
            return True
        if seconds <= 0:
            return False
        loop = asyncio.get_running_loop()
        place: asyncio.Future[bool] = loop.create_future()
        self._line[place] = None
        timer = loop.call_later(seconds, self._expire, place)
        try:
            return await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled() and place.result():
                self.release()  # it was handed over and nobody is there to use it
            raise
        finally:
            timer.cancel()
            self._line.pop(place, None)

    def release(self) -> None:
        """Give a slot back: to the head of the line, if anybody waits."""
        while self._line:
            place = next(iter(self._line))
            del self._line[place]
            if not place.done():
                place.set_result(True)
                return
        self.active -= 1

    def _expire(self, place: asyncio.Future[bool]) -> None:
        self._line.pop(place, None)
        if not place.done():
            place.set_result(False)
