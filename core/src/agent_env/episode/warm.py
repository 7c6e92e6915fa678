"""Ready envs: a pool that a reset takes from, so that its deploy costs nothing. An env is never used twice."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agent_env.errors import AgentEnvError, QuotaExceeded, RateLimited, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from agent_env.episode.deployer import EnvRequest
    from agent_env.episode.sandboxed_env import SandboxedEnv

    Create = Callable[[EnvRequest, float], Coroutine[Any, Any, SandboxedEnv]]

log = logging.getLogger("agent_env.episode")

LIFE_S = 900.0
"""Age at which an env that nobody took is replaced; envs are created to live this much longer than asked for."""

LEAST_LIFE_S = 30.0
"""An env that may not wait even so long is not worth its create."""

AT_ONCE = 4
FIRST_REST_S = 1.0
LONGEST_REST_S = 60.0
GIVEN_WAY_S = 10.0
"""How long a shelf is not filled after it gave way: an episode that needs the room takes a moment to use it."""


@dataclass(slots=True)
class _Shelf:
    """The ready envs of one kind, oldest first."""

    request: EnvRequest
    life_s: float
    ready: deque[tuple[float, SandboxedEnv]] = field(default_factory=deque[tuple[float, "SandboxedEnv"]])
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    filling: set[asyncio.Task[SandboxedEnv]] = field(default_factory=set["asyncio.Task[SandboxedEnv]"])
    rests_until: float = 0.0
    keeper: asyncio.Task[None] | None = None


class WarmPool:
    """Keeps ``size`` ready envs of each kind that it was told to.

    Args:
        size: ready envs of each kind.
        create: makes an env that lives so many seconds longer than asked for; the pool closes what nobody took.
    """

    def __init__(self, size: int, create: Create) -> None:
        if size < 0:
            raise UsageError(f"warm must be 0 or more ready envs, not {size}")
        self._size = size
        self._create = create
        self._known: set[object] = set()
        self._shelves: dict[object, _Shelf] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._closed = False

    def keep(self, key: object, request: EnvRequest, spare_s: float = math.inf) -> None:
        """Keep envs of this kind ready from now on.

        Args:
            key: what makes envs interchangeable.
            request: for one of them.
            spare_s: seconds that it may live beyond what it asks for.
        """
        if self._size and key not in self._known and not self._closed:
            self._known.add(key)
            life_s = min(LIFE_S, spare_s)
            if life_s < min(LEAST_LIFE_S, LIFE_S):
                words = "env %r is not kept warm: beyond its ttl_seconds of %.0f it may live %.0f s here; ask for less"
                log.warning(words, request.env.name, request.ttl_s, max(0.0, life_s))
                return
            shelf = self._shelves[key] = _Shelf(request, life_s)
            loop = asyncio.get_running_loop()
            shelf.keeper = loop.create_task(self._fill(shelf), name=f"keep {request.env.name} warm")

    async def take(self, key: object) -> SandboxedEnv | None:
        """A ready env that runs, or `None` when there is none."""
        shelf = self._shelves.get(key)
        while shelf is not None and shelf.ready:
            made_at, env = shelf.ready.popleft()
            shelf.changed.set()
            if time.monotonic() - made_at < shelf.life_s and await _runs(env):
                return env
            self._discard(env)
        return None

    async def make_room(self, shares: Callable[[str | None], bool]) -> bool:
        """Give up an env, because an episode needs its quota; False when the pool holds none and makes none.

        Args:
            shares: whether a provider, as steps name it, has part in the quota.
        """
        shelves = [shelf for shelf in self._shelves.values() if shares(shelf.request.provider)]
        for shelf in shelves:
            shelf.rests_until = time.monotonic() + GIVEN_WAY_S
        full = next((shelf for shelf in shelves if shelf.ready), None)
        filling = {task for shelf in shelves for task in shelf.filling}
        if full is not None:
            self._discard(full.ready.pop()[1])
        elif filling and not self._closing:
            await asyncio.wait(filling)
            return True
        gave = bool(self._closing)
        await self._settled()
        return gave

    async def _settled(self) -> None:
        """Wait until the ends of discarded envs are done."""
        if self._closing:
            await asyncio.wait(set(self._closing))

    async def close(self) -> None:
        """End the keepers and every ready env. Idempotent."""
        self._closed = True
        keepers = [shelf.keeper for shelf in self._shelves.values() if shelf.keeper is not None]
        for keeper in keepers:
            keeper.cancel()
        if keepers:
            await asyncio.wait(keepers)
        for shelf in self._shelves.values():
            while shelf.ready:
                self._discard(shelf.ready.popleft()[1])
        while self._closing:
            await self._settled()

    def _discard(self, env: SandboxedEnv) -> None:
        task = asyncio.get_running_loop().create_task(env.close(), name=f"end warm {env.name}")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _fill(self, shelf: _Shelf) -> None:
        """Create what is missing, replace what is old, rest after errors."""
        rest = 0.0
        while True:
            shelf.changed.clear()
            while shelf.ready and time.monotonic() - shelf.ready[0][0] >= shelf.life_s:
                self._discard(shelf.ready.popleft()[1])
            missing = self._size - len(shelf.ready)
            if missing > 0 and (pause := shelf.rests_until - time.monotonic()) > 0:
                await asyncio.sleep(pause)
                continue
            if missing > 0:
                rest = await self._add(shelf, min(missing, AT_ONCE), rest)
                if rest:
                    await asyncio.sleep(rest)
                continue
            until_old = shelf.ready[0][0] + shelf.life_s - time.monotonic()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, until_old)):
                    await shelf.changed.wait()

    async def _add(self, shelf: _Shelf, count: int, rest: float) -> float:
        """Create ``count`` envs side by side; returns how long to rest, longer after each failure."""
        tasks = [asyncio.create_task(self._create(shelf.request, shelf.life_s)) for _ in range(count)]
        shelf.filling = set(tasks)
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            self._sort(shelf, tasks)
            raise
        finally:
            shelf.filling = set()
        error = self._sort(shelf, tasks)
        if error is None:
            return 0.0
        longer = min(max(FIRST_REST_S, rest * 2), LONGEST_REST_S)
        if isinstance(error, RateLimited) and error.retry_after is not None:
            longer = max(longer, error.retry_after)
        quiet = isinstance(error, (QuotaExceeded, RateLimited))
        log.log(
            logging.INFO if quiet else logging.WARNING,
            "env %r is not kept warm for %.0f s: %s",
            shelf.request.env.name,
            longer,
            error,
        )
        return longer

    def _sort(self, shelf: _Shelf, tasks: list[asyncio.Task[SandboxedEnv]]) -> Exception | None:
        """Put what was created on the shelf; returns one of the errors."""
        found: Exception | None = None
        for task in tasks:
            if task.cancelled():
                continue
            error = task.exception()
            if error is None:
                shelf.ready.append((time.monotonic(), task.result()))
            elif isinstance(error, Exception):
                found = error
            else:
                raise error
        return found


async def _runs(env: SandboxedEnv) -> bool:
    try:
        return await env.sandbox.status() == "running"
    except AgentEnvError:
        return False
