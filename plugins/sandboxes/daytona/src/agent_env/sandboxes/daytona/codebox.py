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
    from agent_env.sandboxes.daytona.provider import DaytonaProvider
    from agent_env.sandboxes.daytona.sandbox import DaytonaSandbox

_TTL_S = 12 * 3600.0
_MARGIN_S = 120.0
_AT_ONCE = 32
_CREATE_S = 600.0


class CodeBoxes:
    """Runs code beside envs, never in the sandbox of an episode. The boxes end with the provider."""

    def __init__(self, provider: DaytonaProvider) -> None:
        self._provider = provider
        self._boxes: dict[Image, asyncio.Task[DaytonaSandbox]] = {}
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def run(self, image: Image, request: CodeRequest) -> Any:
        """The function's JSON value; see `agent_env.plugin.sandbox.SandboxProvider.run_code`."""
        async with self._slots:
            box = await self._box(image, request.timeout)
            try:
                return await run_code_in(box, request)
            except (SandboxGone, SandboxNotFound):
                # It ended from outside, before or while the code ran: once more, in a fresh one.
                self._drop(image, box)
                return await run_code_in(await self._box(image, request.timeout), request)

    async def _box(self, image: Image, timeout: float) -> DaytonaSandbox:
        task = self._boxes.get(image)
        if task is not None and task.done():
            if task.cancelled() or task.exception() is not None:
                task = None
            elif task.result().closed or (task.result().expires_at or 0) < time.time() + timeout + _MARGIN_S:
                self._drop(image, task.result())
                task = None
        if task is None:
            # The way out is open: the code has to reach the env that it grades, by its public address.
            spec = SandboxSpec(
                image=image, serves=False, network="open", ttl_s=_TTL_S, label="code", labels={"role": "code"}
            )
            work = self._provider.create(spec, timeout=_CREATE_S)
            task = self._boxes[image] = asyncio.create_task(work, name="daytona code box")
        return await asyncio.shield(task)

    def _drop(self, image: Image, box: DaytonaSandbox) -> None:
        """Use it no more; it ends when its time is over, so that commands that still run in it have theirs."""
        task = self._boxes.get(image)
        if task is not None and task.done() and not task.cancelled() and not task.exception() and task.result() is box:
            del self._boxes[image]

    async def close(self) -> None:
        """Wait for creates under way, which a closing provider gives up."""
        tasks = list(self._boxes.values())
        self._boxes.clear()
        await asyncio.gather(*tasks, return_exceptions=True)
