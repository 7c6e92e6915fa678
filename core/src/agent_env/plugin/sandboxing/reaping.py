"""Ending what nobody owns any more, one failure of which does not keep the rest."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from agent_env.plugin.sandboxing.leased import Leased

log = logging.getLogger("agent_env.sandboxes")
L = TypeVar("L", bound="Leased")


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
