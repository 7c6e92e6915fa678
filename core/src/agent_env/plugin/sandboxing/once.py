"""Work that is done once for all who ask for it: a build, a connection, a start.

::

    self._images: Once[Image, Built] = Once("cloudlet")
    built = await self._images.get(image, lambda say: self._build(image, say), progress)
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from agent_env.plugin.sandboxing.creates import closed
from agent_env.plugin.sandboxing.tasks import looked_at

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Hashable

    Progress = Callable[[str], None]

K = TypeVar("K", bound="Hashable")
V = TypeVar("V")


class Once(Generic[K, V]):
    """Results by key. What failed is tried again by whoever asks next.

    Args:
        provider: its name, for messages.
    """

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._known: dict[K, V] = {}
        self._work: dict[K, asyncio.Task[V]] = {}
        self._listeners: dict[K, list[Progress]] = {}
        self._closed = False

    async def get(
        self, key: K, make: Callable[[Progress], Coroutine[Any, Any, V]], progress: Progress | None = None
    ) -> V:
        """The result, made when it is not there. One that waits may be cancelled: the others still want it.

        Args:
            key: what is asked for.
            make: makes it; it is given what tells all who wait of its progress.
            progress: told of the progress, also of work that somebody else began.

        Raises:
            SandboxUnavailable: the provider is closed, or closes meanwhile; whatever ``make`` raises.
        """
        if key in self._known:
            return self._known[key]
        if self._closed:
            raise closed(self._provider)
        listeners = self._listeners.setdefault(key, [])
        if progress is not None:
            listeners.append(progress)
        task = self._work.get(key)
        if task is None:
            task = self._work[key] = asyncio.create_task(
                self._make(key, make, listeners), name=f"{self._provider} once"
            )
            looked_at(task)
            task.add_done_callback(lambda _: self._done(key))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise closed(self._provider) from None
            raise
        finally:
            if progress is not None:
                listeners.remove(progress)

    async def _make(self, key: K, make: Callable[[Progress], Coroutine[Any, Any, V]], listeners: list[Progress]) -> V:
        def say(line: str) -> None:
            for listener in list(listeners):
                listener(line)

        made = self._known[key] = await make(say)
        return made

    def _done(self, key: K) -> None:
        self._work.pop(key, None)
        self._listeners.pop(key, None)

    def forget(self, unwanted: Callable[[K, V], bool]) -> None:
        """Make these anew when they are next asked for: the service says that they are gone."""
        for key in [key for key, value in self._known.items() if unwanted(key, value)]:
            del self._known[key]

    async def close(self) -> None:
        """Stop what is under way; nothing new is made. Idempotent."""
        self._closed = True
        work = list(self._work.values())
        for task in work:
            task.cancel()
        if work:
            await asyncio.wait(work)
