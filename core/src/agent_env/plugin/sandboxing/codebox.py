"""Code of a bundle on a service: one sandbox for each image, in which every request is a command of its own."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from agent_env.errors import SandboxGone, SandboxNotFound, SandboxUnavailable
from agent_env.plugin.sandbox import Sandbox, SandboxSpec
from agent_env.plugin.sandboxing.code import run_code_in
from agent_env.plugin.sandboxing.tasks import looked_at

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from agent_env.plugin.sandbox import CodeRequest, Image

BoxT = TypeVar("BoxT", bound=Sandbox)

_TTL_S = 12 * 3600.0
_MARGIN_S = 120.0
_AT_ONCE = 32


class CodeBoxes(Generic[BoxT]):
    """Runs code beside envs, never in the sandbox of an episode. The boxes end with the provider, or as idle.

    Args:
        create: makes a sandbox.
        ended: whether a sandbox was ended by this process.
        ttl_s: how long a sandbox may live; a fresh one takes over before its end.
        run: runs a request in a sandbox; without it `agent_env.plugin.sandboxing.code.run_code_in` does.
    """

    def __init__(
        self,
        create: Callable[[SandboxSpec], Coroutine[Any, Any, BoxT]],
        ended: Callable[[BoxT], bool],
        *,
        ttl_s: float = _TTL_S,
        run: Callable[[BoxT, CodeRequest], Awaitable[Any]] | None = None,
    ) -> None:
        self._create = create
        self._ended = ended
        self._ttl_s = min(ttl_s, _TTL_S)
        self._run = run or run_code_in
        self._boxes: dict[Image, asyncio.Task[BoxT]] = {}
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def run(self, image: Image, request: CodeRequest) -> Any:
        """The function's JSON value; see `agent_env.plugin.sandbox.SandboxProvider.run_code`."""
        async with self._slots:
            box = await self._box(image, request.timeout)
            try:
                return await self._run(box, request)
            except (SandboxGone, SandboxNotFound):
                # It ended, idle or from outside, before or while the code ran: once more, in a fresh one.
                self._drop(image, box)
                return await self._run(await self._box(image, request.timeout), request)

    async def _box(self, image: Image, timeout: float) -> BoxT:
        task = self._boxes.get(image)
        if task is not None and task.done():
            if task.cancelled() or task.exception() is not None:
                task = None
            elif not self._lasts(task.result(), timeout):
                self._drop(image, task.result())
                task = None
        if task is None:
            # The way out is open: the code has to reach the env that it grades, by its public address.
            spec = SandboxSpec(
                image=image, serves=False, network="open", ttl_s=self._ttl_s, label="code", labels={"role": "code"}
            )
            task = self._boxes[image] = asyncio.create_task(self._create(spec), name="code box")
            looked_at(task)
        # One that waits may be cancelled; the others still want the box.
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise SandboxUnavailable("no sandbox for code: its provider was closed", retryable=False) from None
            raise

    def _lasts(self, box: BoxT, timeout: float) -> bool:
        """Whether a command may still begin in it."""
        return not self._ended(box) and (box.expires_at or 0) >= time.time() + timeout + _MARGIN_S

    def _drop(self, image: Image, box: BoxT) -> None:
        """Use it no more; commands that still run in it have their deadline, and then it ends as it would anyhow."""
        task = self._boxes.get(image)
        if task is not None and task.done() and not task.cancelled() and not task.exception() and task.result() is box:
            del self._boxes[image]

    async def close(self) -> None:
        """Give up what is being made, which its create ends."""
        tasks = [task for task in self._boxes.values() if not task.done()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
