"""One task that renews the leases of all sandboxes of a provider, and ends those whose time is over."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import TYPE_CHECKING

from agent_env.errors import SandboxError, SandboxGone, SandboxNotFound

if TYPE_CHECKING:
    from agent_env.sandboxes.e2b.client import Client
    from agent_env.sandboxes.e2b.sandbox import E2BSandbox

log = logging.getLogger("agent_env.sandboxes.e2b")

_RENEW_AT = 0.6
"""A lease is renewed when less than this share of it is left."""
_RETRY_S = 5.0
_AT_ONCE = 8


class KeepAlive:
    """Knows when the service would end each sandbox."""

    def __init__(self, client: Client, lease_s: float) -> None:
        self._client = client
        self._lease_s = lease_s
        self._boxes: dict[str, E2BSandbox] = {}
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def boxes(self) -> list[E2BSandbox]:
        """All that are kept alive."""
        return list(self._boxes.values())

    def start(self) -> None:
        """Start to renew."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="e2b keep-alive")

    async def close(self) -> None:
        """Stop."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    def add(self, box: E2BSandbox) -> None:
        """Keep a sandbox alive until its time is over."""
        self._boxes[box.id] = box
        self._changed.set()

    def discard(self, box: E2BSandbox) -> None:
        """It has ended."""
        self._boxes.pop(box.id, None)

    def get(self, sandbox_id: str) -> E2BSandbox | None:
        """A sandbox of this provider by id."""
        return self._boxes.get(sandbox_id)

    def _due(self, box: E2BSandbox) -> float:
        """When to renew next; never when the lease lasts until the sandbox's own end."""
        if box.expires_at is None or box.leased_until >= box.expires_at - 1.0:
            return float("inf")
        return box.leased_until - _RENEW_AT * self._lease_s

    async def _run(self) -> None:
        slots = asyncio.Semaphore(_AT_ONCE)

        async def one(box: E2BSandbox) -> None:
            async with slots:
                await self._renew(box)

        while True:
            self._changed.clear()
            now = time.time()
            for box in [box for box in self._boxes.values() if (box.expires_at or now) + 60.0 < now]:
                self.discard(box)  # the service has ended it
            due = [box for box in self._boxes.values() if self._due(box) <= now]
            await asyncio.gather(*(one(box) for box in due))
            next_at = min([now + 60.0, *(self._due(box) for box in self._boxes.values())])
            wait = max(next_at - time.time(), _RETRY_S if due else 0.0)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._changed.wait()

    async def _renew(self, box: E2BSandbox) -> None:
        now = time.time()
        seconds = min(self._lease_s, (box.expires_at or now) - now)
        try:
            found = await self._client.info(box.id)
            if found is None:
                raise SandboxNotFound(f"sandbox {box.id} is gone", provider=self._client.service.name)
            if found.expires_at > now + seconds:  # another process gave it more time
                box.leased_until = found.expires_at
                box.expires_at = max(box.expires_at or 0.0, found.expires_at)
                return
            await self._client.set_timeout(box.id, seconds)
            box.leased_until = now + seconds
        except (SandboxNotFound, SandboxGone):
            log.info("sandbox %s has ended at the service", box.id)
            self.discard(box)
        except SandboxError as error:
            log.warning("sandbox %s: its lease could not be renewed: %s", box.id, error)
