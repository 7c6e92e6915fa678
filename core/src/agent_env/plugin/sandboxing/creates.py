"""The creates of a provider that are under way: each has a deadline and may be cancelled, and none outlives a close.

::

    self.creates = Creates("cloudlet", self.end)

    async def create(self, spec, *, timeout=300.0):
        return await self.creates.run(self._create(spec), spec.label, timeout)

    async def close(self):
        await self.creates.close()  # and then end what was made
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from agent_env.errors import SandboxTimeout, SandboxUnavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    Wait = Callable[[asyncio.Task[Any], float], Awaitable[None]]

BoxT = TypeVar("BoxT")


def closed(provider: str) -> SandboxUnavailable:
    """What a provider that was closed answers."""
    return SandboxUnavailable(f"the {provider} provider is closed", provider=provider, retryable=False)


async def _wait(task: asyncio.Task[Any], timeout: float) -> None:
    await asyncio.wait([task], timeout=timeout)


class Creates(Generic[BoxT]):
    """Runs creates.

    Args:
        provider: its name, for messages.
        end: ends a sandbox that nobody wants any more, by a task that the provider waits for when it closes.
    """

    def __init__(self, provider: str, end: Callable[[BoxT], Any]) -> None:
        self._provider = provider
        self._end = end
        self._under_way: set[asyncio.Task[BoxT]] = set()
        self._closed = False

    def check_open(self) -> None:
        """Raise `SandboxUnavailable` when nothing new is taken."""
        if self._closed:
            raise closed(self._provider)

    async def run(self, work: Coroutine[Any, Any, BoxT], label: str, timeout: float, *, wait: Wait = _wait) -> BoxT:
        """The sandbox that ``work`` makes. When it is cancelled, ``work`` has to end what it has begun.

        A caller that is cancelled need not wait for that.

        Args:
            work: the create.
            label: the sandbox's short name, for messages.
            timeout: seconds it may take.
            wait: waits for ``work`` at most ``timeout`` seconds, where not all time counts.

        Raises:
            SandboxTimeout: it took too long; SandboxUnavailable: the provider was closed; whatever ``work`` raises.
        """
        if self._closed:
            work.close()
            raise closed(self._provider)
        task = asyncio.create_task(work, name=f"{self._provider} create {label}")
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        try:
            await wait(task, timeout)
        except asyncio.CancelledError:
            self._give_up(task)
            raise
        if not task.done():
            self._give_up(task)
            raise SandboxTimeout(f"{label}: not created within {timeout:g} s", provider=self._provider)
        if task.cancelled():
            raise closed(self._provider)
        return task.result()

    def _give_up(self, task: asyncio.Task[BoxT]) -> None:
        task.cancel()
        task.add_done_callback(self._unwanted)

    def _unwanted(self, task: asyncio.Task[BoxT]) -> None:
        if not task.cancelled() and task.exception() is None:  # it was done at that very moment
            self._end(task.result())

    def refuse(self) -> None:
        """Take nothing new from now on."""
        self._closed = True

    async def close(self) -> None:
        """Take nothing new, cancel what is under way and wait for that. Idempotent."""
        self.refuse()
        tasks = set(self._under_way)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
