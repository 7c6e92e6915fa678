"""Ending what nobody owns any more, one failure of which does not keep the rest."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import TYPE_CHECKING, Any, TypeVar

from agent_env.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from agent_env.plugin.sandboxing.leased import Leased

log = logging.getLogger("agent_env.sandboxes")
L = TypeVar("L", bound="Leased")

_FIRST_S = 15.0
_EVERY_S = 60.0


async def reap(found: Iterable[L], end: Callable[[L], Awaitable[Any]], older_than_s: float | None = None) -> list[str]:
    """End those of ``found`` that nobody owns; see `agent_env.plugin.sandbox.SandboxProvider.reap`.

    Args:
        found: all sandboxes of AgentEnv at the service.
        end: ends one; it limits by itself how many at a time.
        older_than_s: also what dead or unknown owners made more than this long ago.

    Returns:
        The ids that were ended. What could not be ended is logged, and ends by its own life.
    """
    now = time.time()
    left = [one for one in found if one.may_reap(now, older_than_s)]
    results = await asyncio.gather(*(end(one) for one in left), return_exceptions=True)
    ended: list[str] = []
    for one, result in zip(left, results, strict=True):
        if isinstance(result, Exception):
            log.warning("sandbox %s could not be reaped: %s", one.id, result)
        elif isinstance(result, BaseException):
            raise result
        else:
            ended.append(one.id)
    return ended


class Sweeper:
    """One task that reaps now and then, beside the reaping at a provider's start.

    A create that a killed server had asked for may be carried out only after the next server's start.

    Args:
        reap: ends what nobody owns; its `SandboxError` is tried again at the next time.
        name: of the provider.
        first_s: seconds from `start` to the first time.
        every_s: seconds between the others.
    """

    def __init__(
        self, reap: Callable[[], Awaitable[Any]], name: str, *, first_s: float = _FIRST_S, every_s: float = _EVERY_S
    ) -> None:
        self._reap = reap
        self._name = name
        self._first_s = first_s
        self._every_s = every_s
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start; again it does nothing."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"{self._name} sweep")

    async def close(self) -> None:
        """Stop."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _run(self) -> None:
        wait = self._first_s
        while True:
            await asyncio.sleep(wait)
            wait = self._every_s
            with contextlib.suppress(SandboxError):
                await self._reap()
