"""Signs of life: one task for all sandboxes of a provider, so that Modal ends what a killed server left behind."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from agent_env.errors import SandboxError, SandboxGone

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agent_env.sandboxes.modal.sandbox import ModalSandbox

log = logging.getLogger("agent_env.sandboxes.modal")

_AT_ONCE = 16


class Keeper:
    """Holds the sandboxes that this process made, and shows Modal three times in an idle time that it lives."""

    def __init__(self, idle_timeout_s: float) -> None:
        self._every = idle_timeout_s / 3
        self._boxes: dict[str, ModalSandbox] = {}
        self._task: asyncio.Task[None] | None = None

    @property
    def boxes(self) -> Iterable[ModalSandbox]:
        """All of them."""
        return tuple(self._boxes.values())

    def get(self, sandbox_id: str) -> ModalSandbox | None:
        """The sandbox with this id."""
        return self._boxes.get(sandbox_id)

    def add(self, box: ModalSandbox) -> None:
        """Keep it alive from now on."""
        self._boxes[box.id] = box
        if self._every > 0 and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._beat(), name="modal keep-alive")

    def discard(self, box: ModalSandbox) -> None:
        """It has ended."""
        self._boxes.pop(box.id, None)

    async def close(self) -> None:
        """Stop; the sandboxes stay."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _beat(self) -> None:
        slots = asyncio.Semaphore(_AT_ONCE)

        async def one(box: ModalSandbox) -> None:
            async with slots:
                try:
                    await box.beat()
                except SandboxGone:
                    pass  # whoever uses it will see
                except SandboxError as error:
                    log.info("a sign of life was not taken: %s", error)

        while True:
            await asyncio.sleep(self._every)
            await asyncio.gather(*(one(box) for box in self.boxes))
