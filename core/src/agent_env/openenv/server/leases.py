"""Lives of sessions that no connection holds: one timer for all of them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Leases:
    """Calls ``expired(key)`` for every key that was not renewed for ``seconds``.

    All leases last equally long, so the order of renewal is the order of expiry and one timer, set for the oldest,
    serves them all.
    """

    def __init__(self, seconds: float, expired: Callable[[str], None]) -> None:
        self.seconds = seconds
        self._expired = expired
        self._ends: dict[str, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._ends)

    def renew(self, key: str) -> None:
        """Start or restart a lease."""
        self._ends.pop(key, None)
        self._ends[key] = asyncio.get_running_loop().time() + self.seconds
        if self._timer is None:
            self._set_timer()

    def drop(self, key: str) -> None:
        """Forget a lease: somebody holds the session, or it is gone."""
        self._ends.pop(key, None)

    def close(self) -> None:
        """Forget all."""
        self._ends.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self) -> None:
        end = next(iter(self._ends.values()))
        self._timer = asyncio.get_running_loop().call_at(end, self._tick)

    def _tick(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        for key in [key for key, end in self._ends.items() if end <= now]:
            del self._ends[key]
            self._expired(key)
        if self._ends:
            self._set_timer()
