"""Code of a bundle: one sandbox for each image, in which every request is a command of its own."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from agent_env.errors import SandboxGone, SandboxNotFound
from agent_env.plugin.code import run_code_in
from agent_env.plugin.sandbox import SandboxSpec

if TYPE_CHECKING:
    from agent_env.plugin.sandbox import CodeRequest, Image
    from agent_env.sandboxes.modal.provider import ModalProvider
    from agent_env.sandboxes.modal.sandbox import ModalSandbox

_TTL_S = 12 * 3600.0
_MARGIN_S = 120.0
_AT_ONCE = 32


class CodeBoxes:
    """Runs code beside envs, never in the sandbox of an episode. A box that nobody uses ends by Modal's idle time."""

    def __init__(self, provider: ModalProvider) -> None:
        self._provider = provider
        self._boxes: dict[Image, asyncio.Task[ModalSandbox]] = {}
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def run(self, image: Image, request: CodeRequest) -> Any:
        """The function's JSON value; see `agent_env.plugin.sandbox.SandboxProvider.run_code`."""
        async with self._slots:
            box = await self._box(image, request.timeout)
            try:
                return await run_code_in(box, request)
            except (SandboxGone, SandboxNotFound):
                # It ended, idle or from outside, before or while the code ran: once more, in a fresh one.
                self._drop(image, box)
                return await run_code_in(await self._box(image, request.timeout), request)

    async def _box(self, image: Image, timeout: float) -> ModalSandbox:
        task = self._boxes.get(image)
        if task is not None and task.done():
            if task.cancelled() or task.exception() is not None:
                task = None
            elif (task.result().expires_at or 0) < time.time() + timeout + _MARGIN_S or task.result().ended:
                self._drop(image, task.result())
                task = None
        if task is None:
            # The way out is open: the code has to reach the env that it grades, by its public address.
            spec = SandboxSpec(
                image=image, serves=False, network="open", ttl_s=_TTL_S, label="code", labels={"role": "code"}
            )
            work = self._provider.create_box(spec, keep=False)
            task = self._boxes[image] = asyncio.create_task(work, name="modal code box")
        return await asyncio.shield(task)

    def _drop(self, image: Image, box: ModalSandbox) -> None:
        """Use it no more; commands that still run in it have their deadline, then Modal ends it as idle."""
        task = self._boxes.get(image)
        if task is not None and task.done() and not task.cancelled() and not task.exception() and task.result() is box:
            del self._boxes[image]

    @property
    def tasks(self) -> list[asyncio.Task[ModalSandbox]]:
        """The creates; for closing."""
        return list(self._boxes.values())
