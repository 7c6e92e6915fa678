"""What a create does when the service says "not now": it waits, and the account's other processes with it, but not
beyond its deadline.

::

    patience = Patience(pace, spec.label, until)
    while True:
        await patience.before()
        try:
            return await attempt()  # takes `pace.slot()` itself
        except (RateLimited, SandboxUnavailable) as error:
            await patience.after(error)  # raises `error` when waiting is no use
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING

from agent_env.errors import RateLimited, SandboxError

if TYPE_CHECKING:
    from agent_env.plugin.sandboxing.pacing import Pace

log = logging.getLogger("agent_env.sandboxes")

_FIRST_S = 0.5
_MOST_S = 30.0
_UNAVAILABLE = 5
"""So often a service may be out of reach in one create: then another provider of a chain is worth more than waiting."""


def pause(failures: int) -> float:
    """Seconds to wait after so many failures in a row: growing, and jittered, so that callers do not come together."""
    longest: float = min(_MOST_S, _FIRST_S * 2.0 ** min(failures - 1, 10))
    return longest * (0.5 + random.random() / 2)  # noqa: S311


class Patience:
    """The waits of one create.

    Args:
        pace: the account's pace.
        label: the sandbox's name in messages.
        until: time of the event loop at which the caller gives up: nothing waits beyond it.
    """

    def __init__(self, pace: Pace, label: str, until: float) -> None:
        self._pace = pace
        self._label = label
        self._until = until
        self._failures = 0
        self._unavailable = 0

    async def before(self) -> None:
        """Before an attempt.

        Raises:
            RateLimited: the account is on hold until after the deadline; nothing is worth trying.
        """
        held = await self._pace.held()
        if held > 0 and asyncio.get_running_loop().time() + held >= self._until:
            raise RateLimited(
                f"{self._label}: the service has put creates of this account on hold for another {held:.0f} s",
                retry_after=held,
            )

    async def after(self, error: SandboxError) -> None:
        """After an attempt that failed: a rate limit holds all processes for as long as the service asks, or for a
        growing while; anything else is waited for here alone.

        Raises:
            SandboxError: ``error`` itself, when it is not retryable, or the wait would end too late, or the service was
                out of reach too often.
        """
        self._failures += 1
        wait = pause(self._failures)
        if isinstance(error, RateLimited):
            wait = wait if error.retry_after is None else error.retry_after
            await self._pace.hold(wait)
        else:
            self._unavailable += 1
        late = asyncio.get_running_loop().time() + wait >= self._until
        if not error.retryable or late or self._unavailable >= _UNAVAILABLE:
            raise error
        log.info("%s: create is tried again in %.1f s: %s", self._label, wait, error)
        if not isinstance(error, RateLimited):  # the next turn comes after the hold
            await asyncio.sleep(wait)
