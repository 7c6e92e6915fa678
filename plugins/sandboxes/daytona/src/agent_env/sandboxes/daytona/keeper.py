"""One task that renews the leases of a provider's sandboxes and ends what has lived long enough."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_env.errors import SandboxError, SandboxNotFound
from agent_env.sandboxes.daytona import ending, labels
from agent_env.sandboxes.daytona.client import minutes

if TYPE_CHECKING:
    from agent_env.sandboxes.daytona.provider import DaytonaProvider
    from agent_env.sandboxes.daytona.sandbox import DaytonaSandbox

log = logging.getLogger("agent_env.sandboxes.daytona")

_SWEEP_S = 300.0
_AGAIN_S = 15.0
_AT_ONCE = 16


@dataclass(slots=True)
class _Kept:
    box: DaytonaSandbox
    renew_at: float
    end_at: float


class Keeper:
    """Daytona ends a sandbox when its lease is over; as long as this runs, leases are renewed."""

    def __init__(self, provider: DaytonaProvider, lease_s: float) -> None:
        self._provider = provider
        self._lease_s = lease_s
        self._kept: dict[str, _Kept] = {}
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start to keep."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="daytona keeper")

    async def close(self) -> None:
        """Stop."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    @property
    def boxes(self) -> list[DaytonaSandbox]:
        """All that are kept."""
        return [kept.box for kept in self._kept.values()]

    def find(self, sandbox_id: str) -> DaytonaSandbox | None:
        """One of them."""
        kept = self._kept.get(sandbox_id)
        return kept.box if kept is not None else None

    def add(self, box: DaytonaSandbox) -> None:
        """Keep a sandbox that was just created."""
        self._kept[box.id] = _Kept(box, time.time() + self._lease_s / 3, box.expires_at or time.time())
        self._changed.set()

    def discard(self, box: DaytonaSandbox) -> None:
        """It has ended."""
        self._kept.pop(box.id, None)

    def lease(self, ttl_s: float) -> int:
        """Minutes for which Daytona lets a sandbox live that is kept for ``ttl_s`` seconds."""
        return minutes(min(ttl_s, self._lease_s))

    def extended(self, box: DaytonaSandbox) -> None:
        """A sandbox got a new expiry and a fresh lease."""
        kept = self._kept.get(box.id)
        if kept is not None and box.expires_at is not None:
            kept.end_at, kept.renew_at = box.expires_at, time.time() + self._lease_s / 3
            self._changed.set()

    async def _run(self) -> None:
        swept = time.monotonic()
        while True:
            now = time.time()
            due = [kept for kept in self._kept.values() if min(kept.end_at, kept.renew_at) <= now]
            for first in range(0, len(due), _AT_ONCE):
                await asyncio.gather(*(self._attend(kept) for kept in due[first : first + _AT_ONCE]))
            if time.monotonic() - swept > _SWEEP_S:
                swept = time.monotonic()
                with contextlib.suppress(SandboxError):
                    await self._provider.reap()
            times = [min(kept.end_at, kept.renew_at) for kept in self._kept.values()]
            wait = min([_SWEEP_S, *(max(moment - time.time(), 0.0) + 0.01 for moment in times)])
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._changed.wait()

    async def _attend(self, kept: _Kept) -> None:
        now = time.time()
        try:
            if kept.end_at <= now:
                await self._expire(kept, now)
            else:
                await kept.box.renew(self.lease(kept.end_at - now))
                kept.renew_at = now + self._lease_s / 3
        except SandboxNotFound:
            log.info("sandbox %s has ended", kept.box.id)
            self._kept.pop(kept.box.id, None)
        except SandboxError as error:
            log.warning("sandbox %s: its lease could not be seen to: %s", kept.box.id, error)
            kept.renew_at = now + _AGAIN_S
            if kept.end_at <= now:
                kept.end_at = now + _AGAIN_S

    async def _expire(self, kept: _Kept, now: float) -> None:
        """End a sandbox, unless another process gave it more time meanwhile."""
        remote = await ending.find(self._provider.api, kept.box.id)
        found = labels.read(remote) if remote is not None else None
        if found is not None and found.expires_at > now:
            kept.box.expires_at = kept.end_at = found.expires_at
            kept.renew_at = now
            return
        log.info("sandbox %s has lived its time and ends", kept.box.id)
        await kept.box.close()
