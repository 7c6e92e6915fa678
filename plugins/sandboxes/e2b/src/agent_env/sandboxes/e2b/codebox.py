"""Code of a bundle: one sandbox for each image, in which every request is a command that leaves nothing behind."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from agent_env.errors import SandboxGone, SandboxNotFound
from agent_env.plugin.code import run_code_in
from agent_env.plugin.sandbox import SandboxSpec

if TYPE_CHECKING:
    from agent_env.plugin.sandbox import CodeRequest, Image
    from agent_env.sandboxes.e2b.provider import E2BProviderBase
    from agent_env.sandboxes.e2b.sandbox import E2BSandbox

_TTL_S = 86400.0
_AT_ONCE = 32


class CodeBoxes:
    """Runs code beside envs, never in the sandbox of an episode."""

    def __init__(self, provider: E2BProviderBase) -> None:
        self._provider = provider
        self._boxes: dict[Image, asyncio.Task[E2BSandbox]] = {}
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def run(self, image: Image, request: CodeRequest) -> Any:
        """The function's JSON value; see `agent_env.plugin.sandbox.SandboxProvider.run_code`."""
        async with self._slots:
            box = await self._box(image, request.timeout)
            try:
                return await run_code_in(box, request)
            except (SandboxGone, SandboxNotFound):
                # The service ended the sandbox that this code was to run in: once more, in a fresh one.
                self._drop(image, box)
                return await run_code_in(await self._box(image, request.timeout), request)

    async def _box(self, image: Image, timeout: float) -> E2BSandbox:
        task = self._boxes.get(image)
        if task is not None and task.done():
            if task.cancelled() or task.exception() is not None:
                task = None
            elif task.result().closed or (task.result().expires_at or 0) < time.time() + timeout + 60:
                self._drop(image, task.result())
                task = None
        if task is None:
            task = self._boxes[image] = asyncio.create_task(self._make(image), name="e2b code box")
            task.add_done_callback(_look_at)
        return await asyncio.shield(task)

    async def _make(self, image: Image) -> E2BSandbox:
        ttl_s = min(_TTL_S, self._provider.options.max_ttl_s)
        spec = SandboxSpec(
            image=image, serves=False, network="open", ttl_s=ttl_s, label="code", labels={"role": "code"}
        )
        return await self._provider.create(spec)

    def _drop(self, image: Image, box: E2BSandbox) -> None:
        """Use it no more; what still runs in it has its deadline, and the provider's end ends it."""
        task = self._boxes.get(image)
        if task is not None and task.done() and not task.cancelled() and not task.exception() and task.result() is box:
            del self._boxes[image]

    async def close(self) -> None:
        """Wait for what is being made; the provider ends it."""
        tasks = [task for task in self._boxes.values() if not task.done()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


def _look_at(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()
