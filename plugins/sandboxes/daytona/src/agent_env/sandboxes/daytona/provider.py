"""The provider: sandboxes of one Daytona account."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import re
from typing import TYPE_CHECKING, Any

from agent_env.errors import SandboxNotFound
from agent_env.plugin.sandbox import Capabilities, SandboxProvider, SandboxRecord
from agent_env.plugin.sandboxing import reaping
from agent_env.plugin.sandboxing.codebox import CodeBoxes
from agent_env.plugin.sandboxing.creates import Creates
from agent_env.plugin.sandboxing.once import Once
from agent_env.plugin.sandboxing.options import read_options
from agent_env.plugin.sandboxing.pacing import Pace
from agent_env.plugin.sandboxing.tasks import Tasks
from agent_env.sandboxes.daytona import ending, plan
from agent_env.sandboxes.daytona import labels as marks
from agent_env.sandboxes.daytona.client import Api
from agent_env.sandboxes.daytona.creation import Creator
from agent_env.sandboxes.daytona.images import Images
from agent_env.sandboxes.daytona.keeper import Keeper
from agent_env.sandboxes.daytona.options import DaytonaOptions
from agent_env.sandboxes.daytona.sandbox import DaytonaSandbox
from agent_env.sandboxes.daytona.sdk import NAME
from agent_env.sandboxes.daytona.size import size_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    import httpx
    from agent_env.plugin.sandbox import CodeRequest, Image, SandboxSpec
    from agent_env.sandboxes.daytona.labels import Found
    from agent_env.sandboxes.daytona.sdk import Remote

log = logging.getLogger("agent_env.sandboxes.daytona")

_CLOSE_DEADLINE = 90.0
_ENDS_AT_ONCE = 16
_CODE_CREATE_S = 600.0
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


class DaytonaProvider(SandboxProvider):
    """Envs as Daytona sandboxes. Options: `agent_env.sandboxes.daytona.options.DaytonaOptions`."""

    name: str = NAME
    capabilities: Capabilities = Capabilities(
        isolation="container", endpoint="https", network_none=True, limits=plan.LIMITS, server_ttl=True
    )

    def __init__(self, **options: Any) -> None:
        self.options = read_options(DaytonaOptions, NAME, options)
        self.api = Api(self.options)
        self.tasks = Tasks()
        self.keeper = Keeper(self, self.options.lease_minutes * 60.0)
        self._images = Images(self.api, self.options)
        self._codes = CodeBoxes(lambda spec: self.create(spec, timeout=_CODE_CREATE_S), lambda box: box.closed)
        self._ends = asyncio.Semaphore(_ENDS_AT_ONCE)
        self._started: Once[None, None] = Once(NAME)
        self._creator: Creator | None = None
        self._http: httpx.AsyncClient | None = None
        self._creates = Creates(NAME, self.end)
        self._closing: asyncio.Task[None] | None = None

    # -- life ---------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        self._creates.check_open()
        await self._started.get(None, lambda _: self._start())

    async def _start(self) -> None:
        await self._open()
        await self.reap()  # also asks whether the key is good
        import httpx

        if self._http is None:
            self._http = await asyncio.to_thread(httpx.AsyncClient)
        pace = Pace(
            self._account(),
            rate=self.options.creates_per_s,
            burst=max(1, int(self.options.creates_per_s)),
            concurrency=self.options.max_creates,
            folder=self.options.pace_dir,
        )
        self._creator = Creator(self.api, self._images, self.options, self.tasks, pace, self._http)
        self.keeper.start()

    def _account(self) -> str:
        """What is paced together: one account of one service. The key cannot be had from it."""
        key = os.environ.get(self.options.api_key_var, "")
        whole = f"{self.options.api_url or os.environ.get('DAYTONA_API_URL', '')} {self.options.organization_id} {key}"
        return f"daytona-{hashlib.sha256(whole.encode()).hexdigest()[:16]}"

    async def _open(self) -> None:
        self._creates.check_open()
        await self.api.open()

    async def _ready(self) -> Creator:
        await self.start()
        self._creates.check_open()
        assert self._creator is not None
        return self._creator

    async def close(self) -> None:
        self._creates.refuse()
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(), name="daytona close")
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        await self._started.close()  # a start that still waits for the service is of no use any more
        await self._images.close()
        await self._codes.close()
        await self._creates.close()
        await self.keeper.close()
        ends = [box.close() for box in self.keeper.boxes]
        for result in await asyncio.gather(*ends, return_exceptions=True):
            if isinstance(result, Exception):
                log.warning("a sandbox could not be ended; its time to live ends it: %s", result)
        left = await self.tasks.wait(_CLOSE_DEADLINE)
        if left:
            log.warning("%d tasks of the daytona sandbox were given up; times to live end what they left", left)
        await self.api.close()
        if self._http is not None:
            await self._http.aclose()

    # -- create -------------------------------------------------------------------------------------------------------

    async def prepare(self, image: Image, *, progress: Callable[[str], None] | None = None) -> None:
        await self._open()
        await self._images.get(image, size_of(None, self.options), progress)

    async def create(self, spec: SandboxSpec, *, timeout: float = 300.0) -> DaytonaSandbox:
        return await self._creates.run(self._create(spec, timeout), spec.label, timeout)

    async def _create(self, spec: SandboxSpec, timeout: float) -> DaytonaSandbox:
        deadline = asyncio.get_running_loop().time() + timeout
        creator = await self._ready()
        made = await creator.create(spec, deadline=deadline)
        box = DaytonaSandbox(self, made.remote, made.found, ours=True)
        self.keeper.add(box)
        return box

    async def run_code(self, image: Image, request: CodeRequest) -> Any:
        self._creates.check_open()
        return await self._codes.run(image, request)

    # -- what sandboxes ask -------------------------------------------------------------------------------------------

    def end(self, box: DaytonaSandbox) -> asyncio.Task[None]:
        """End a sandbox by a task that the provider waits for."""
        return self.tasks.start(self._end(box), f"daytona end {box.id}")

    async def _end(self, box: DaytonaSandbox) -> None:
        async with self._ends:
            await ending.end(self.api, box.id)
        box.closed = True
        self.keeper.discard(box)

    # -- others' sandboxes --------------------------------------------------------------------------------------------

    async def _find(self, sandbox_id: str) -> tuple[Remote, Found] | None:
        """A sandbox of ours that has not ended."""
        await self._open()
        if not _ID.fullmatch(sandbox_id):
            return None
        remote = await ending.find(self.api, sandbox_id)
        found = marks.read(remote) if remote is not None else None
        return (remote, found) if remote is not None and found is not None else None

    async def attach(self, sandbox_id: str) -> DaytonaSandbox:
        kept = self.keeper.find(sandbox_id)
        if kept is not None:
            return kept
        both = await self._find(sandbox_id)
        if both is None:
            raise SandboxNotFound(f"no sandbox has the id {sandbox_id!r}", provider=NAME, sandbox_id=sandbox_id)
        return DaytonaSandbox(self, *both, ours=False)

    async def _listing(self, labels: Mapping[str, str] | None = None) -> list[Found]:
        await self._open()
        query = self.api.sdk.ListSandboxesQuery(labels=marks.LABELS.query(labels), limit=100)

        async def everything() -> list[Found]:
            found = [marks.read(remote) async for remote in self.api.client.list(query)]
            return [one for one in found if one is not None and one.status != "gone"]

        return await self.api.call(everything, "Daytona: listing sandboxes")

    async def list(self, labels: Mapping[str, str] | None = None) -> AsyncIterator[SandboxRecord]:
        for found in await self._listing(labels):
            yield found.record()

    async def destroy(self, sandbox_id: str) -> bool:
        kept = self.keeper.find(sandbox_id)
        if kept is not None:
            there = await ending.find(self.api, sandbox_id) is not None
            await kept.close()
            return there
        both = await self._find(sandbox_id)
        return both is not None and await self._remove(both[1])

    async def _remove(self, found: Found) -> bool:
        async with self._ends:
            return await ending.end(self.api, found.id)

    async def reap(self, *, older_than_s: float | None = None) -> Sequence[str]:
        return await reaping.reap(await self._listing(), self._remove, older_than_s)
