"""The providers: E2B's cloud, and self-hosted servers that speak its API."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import httpx
from agent_env.errors import SandboxError, SandboxNotFound
from agent_env.plugin.sandbox import Capabilities, SandboxProvider
from agent_env.plugin.sandboxing import reaping
from agent_env.plugin.sandboxing.codebox import CodeBoxes
from agent_env.plugin.sandboxing.creates import Creates
from agent_env.plugin.sandboxing.leased import MARK
from agent_env.plugin.sandboxing.once import Once
from agent_env.plugin.sandboxing.options import read_options
from agent_env.plugin.sandboxing.tasks import Tasks
from agent_env.sandboxes.e2b.client import Client
from agent_env.sandboxes.e2b.creation import Creator
from agent_env.sandboxes.e2b.keepalive import KeepAlive
from agent_env.sandboxes.e2b.options import AenvOptions, E2BOptions, Options
from agent_env.sandboxes.e2b.sandbox import E2BSandbox
from agent_env.sandboxes.e2b.sdk import loaded
from agent_env.sandboxes.e2b.service import aenv_service, e2b_service
from agent_env.sandboxes.e2b.templates import Templates

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from agent_env.plugin.sandbox import CodeRequest, Image, SandboxRecord, SandboxSpec
    from agent_env.sandboxes.e2b.labels import Found
    from agent_env.sandboxes.e2b.service import Service

log = logging.getLogger("agent_env.sandboxes.e2b")

_CLOSE_DEADLINE = 60.0
_ENDS_AT_ONCE = 8


class E2BProviderBase(SandboxProvider):
    """What both providers share."""

    def __init__(self, options: Options, service: Service, *, inline_files: bool) -> None:
        self.options = options
        self.service = service
        self.client = Client(service, options.request_timeout_s)
        self.tasks = Tasks()
        self.capabilities = Capabilities(
            isolation="vm",
            endpoint="https" if service.sandbox_url is None else "tcp",
            max_ttl_s=options.max_ttl_s,
            network_none=True,
            limits=frozenset({"cpu", "memory_mb"}),
            server_ttl=True,
        )
        self._inline_files = inline_files
        self._creator: Creator | None = None
        self._templates: Templates | None = None
        self._http: httpx.AsyncClient | None = None
        self._keep = KeepAlive(self.client, options.lease_s)
        self._codes = CodeBoxes(self.create, lambda box: box.closed, ttl_s=options.max_ttl_s)
        self._ends = asyncio.Semaphore(_ENDS_AT_ONCE)
        self._creates = Creates(self.name, self.end)
        self._started: Once[None, None] = Once(self.name)
        self._sweeper = reaping.Sweeper(self.reap, self.name)
        self._closing: asyncio.Task[None] | None = None

    # -- life ---------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        self._creates.check_open()
        await self._started.get(None, lambda _: self._start())

    async def _start(self) -> None:
        await loaded(self.service.oldest_sdk)
        await self.reap()  # a wrong key is found here, too
        if self._http is None:
            self._http = httpx.AsyncClient(follow_redirects=False)
            self._templates = Templates(self.client, self.options, inline_files=self._inline_files)
            self._creator = Creator(self.client, self._templates, self.options, self.tasks, self._http)
        self._keep.start()
        self._sweeper.start()

    async def _ready(self) -> tuple[Creator, Templates]:
        await self.start()
        self._creates.check_open()
        assert self._creator is not None
        assert self._templates is not None
        return self._creator, self._templates

    async def close(self) -> None:
        self._creates.refuse()
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(), name="e2b close")
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        await self._started.close()  # a start that still waits for the service is of no use any more
        await self._sweeper.close()
        await self._codes.close()
        await self._creates.close()
        if self._templates is not None:
            await self._templates.close()
        await self._keep.close()
        for box in self._keep.boxes:
            self.end(box)
        left = await self.tasks.wait(_CLOSE_DEADLINE)
        if left:
            log.warning("%d pieces of work at %s did not end; the service ends what is left by itself", left, self.name)
        if self._http is not None:
            await self._http.aclose()

    # -- create -------------------------------------------------------------------------------------------------------

    async def prepare(self, image: Image, *, progress: Callable[[str], None] | None = None) -> None:
        _, templates = await self._ready()
        await templates.get(image, progress=progress)

    async def create(self, spec: SandboxSpec, *, timeout: float = 300.0) -> E2BSandbox:
        until = asyncio.get_running_loop().time() + timeout
        return await self._creates.run(self._create(spec, until), spec.label, timeout)

    async def _create(self, spec: SandboxSpec, until: float) -> E2BSandbox:
        creator, _ = await self._ready()
        made = await creator.create(spec, until)
        box = E2BSandbox(
            self,
            made.box,
            made.about,
            labels={MARK: self.name, "create_id": made.create_id, "label": spec.label, **spec.labels},
            expires_at=made.expires_at,
            leased_until=made.leased_until,
            endpoint=made.endpoint,
            ours=True,
        )
        self._keep.add(box)
        return box

    async def run_code(self, image: Image, request: CodeRequest) -> Any:
        await self._ready()
        return await self._codes.run(image, request)

    # -- what sandboxes ask -------------------------------------------------------------------------------------------

    def extended(self, box: E2BSandbox) -> None:
        """A sandbox got a new expiry."""
        if box.ours:
            self._keep.add(box)

    def end(self, box: E2BSandbox) -> asyncio.Task[None]:
        """End a sandbox by a task that the provider waits for."""
        return self.tasks.start(self._end(box), f"e2b end {box.id}")

    async def _end(self, box: E2BSandbox) -> None:
        creator, _ = await self._opened()
        try:
            async with self._ends:
                await creator.end(box.id)
        except SandboxError as error:
            log.warning("sandbox %s did not end and is left to its lease: %s", box.id, error)
            self._keep.discard(box)
            raise
        box.closed = True
        self._keep.discard(box)

    async def _opened(self) -> tuple[Creator, Templates]:
        """As `_ready`, also while the provider closes."""
        if self._creator is None or self._templates is None:
            return await self._ready()
        return self._creator, self._templates

    # -- others' sandboxes --------------------------------------------------------------------------------------------

    async def attach(self, sandbox_id: str) -> E2BSandbox:
        own = self._keep.get(sandbox_id)
        if own is not None:
            return own
        found = await self.client.info(sandbox_id)
        if found is None:
            raise SandboxNotFound(f"no sandbox has the id {sandbox_id!r}", provider=self.name, sandbox_id=sandbox_id)
        box = await self.client.connect(sandbox_id)
        endpoint = self.service.endpoint(box, found.about.port) if found.about.serves else None
        return E2BSandbox(
            self,
            box,
            found.about,
            labels=found.labels,
            expires_at=found.expires_at,
            leased_until=found.expires_at,
            endpoint=endpoint,
            ours=False,
        )

    async def list(self, labels: Mapping[str, str] | None = None) -> AsyncIterator[SandboxRecord]:
        async for found in self.client.list(self.client.labels.query(labels)):
            yield found.record()

    async def destroy(self, sandbox_id: str) -> bool:
        own = self._keep.get(sandbox_id)
        if own is not None:
            await own.close()
            return True
        # Only what is ours: the account may hold other people's work.
        found = await self.client.info(sandbox_id)
        return found is not None and await self.client.kill(sandbox_id)

    async def reap(self, *, older_than_s: float | None = None) -> Sequence[str]:
        async def end(found: Found) -> None:
            async with self._ends:
                await self.client.kill(found.id)

        everything = [found async for found in self.client.list(self.client.labels.query())]
        return await reaping.reap(everything, end, older_than_s)


class E2BProvider(E2BProviderBase):
    """The E2B cloud. Options: `agent_env.sandboxes.e2b.options.E2BOptions`."""

    name: str = "e2b"

    def __init__(self, **options: Any) -> None:
        given = read_options(E2BOptions, self.name, options)
        super().__init__(given, e2b_service(given), inline_files=False)


class AenvProvider(E2BProviderBase):
    """A self-hosted AgentENV server. Options: `agent_env.sandboxes.e2b.options.AenvOptions`."""

    name: str = "aenv"

    def __init__(self, **options: Any) -> None:
        given = read_options(AenvOptions, self.name, options)
        super().__init__(given, aenv_service(given), inline_files=given.files == "inline")
