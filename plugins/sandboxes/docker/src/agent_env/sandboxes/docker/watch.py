"""One task that ends what has lived long enough: the engine has no such thing."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import TYPE_CHECKING

from agent_env.errors import SandboxError
from agent_env.sandboxes.docker import containers, labels

if TYPE_CHECKING:
    from agent_env.sandboxes.docker.provider import DockerProvider
    from agent_env.sandboxes.docker.sandbox import DockerSandbox

log = logging.getLogger("agent_env.sandboxes.docker")

_SWEEP_S = 60.0


class Watch:
    """Knows when each sandbox of a provider expires; also ends, now and then, what nobody owns any more."""

    def __init__(self, provider: DockerProvider) -> None:
        self._provider = provider
        self._boxes: dict[str, DockerSandbox] = {}
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start to watch."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="docker watch")

    async def close(self) -> None:
        """Stop."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    def add(self, box: DockerSandbox) -> None:
        """Watch a sandbox."""
        self._boxes[box.id] = box
        self._changed.set()

    def discard(self, box: DockerSandbox) -> None:
        """It has ended."""
        self._boxes.pop(box.id, None)

    def changed(self) -> None:
        """An expiry changed."""
        self._changed.set()

    @property
    def boxes(self) -> list[DockerSandbox]:
        """All that are watched."""
        return list(self._boxes.values())

    async def _run(self) -> None:
        swept = time.monotonic()
        while True:
            now = time.time()
            due = [box for box in self._boxes.values() if (box.expires_at or now + 1) <= now]
            for box in due:
                await self._expire(box, now)
            if time.monotonic() - swept > _SWEEP_S:
                swept = time.monotonic()
                with contextlib.suppress(SandboxError):
                    await self._provider.reap()
            times = [box.expires_at for box in self._boxes.values() if box.expires_at is not None]
            wait = min([_SWEEP_S, *(max(moment - time.time(), 0.0) + 0.01 for moment in times)])
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._changed.wait()

    async def _expire(self, box: DockerSandbox, now: float) -> None:
        """End a sandbox, unless another process gave it more time meanwhile."""
        try:
            inspected = await containers.inspect(self._provider.engine, box.id)
            found = labels.inspected(inspected) if inspected is not None else None
            if found is not None and found.expires_at > now:
                box.expires_at = found.expires_at
                return
            log.info("sandbox %s has lived its time and ends", box.id)
            box.note = "ended: its time to live was over"
            await box.close()
        except SandboxError as error:
            log.warning("sandbox %s has lived its time and does not end: %s", box.id, error)
            box.expires_at = now + _SWEEP_S
