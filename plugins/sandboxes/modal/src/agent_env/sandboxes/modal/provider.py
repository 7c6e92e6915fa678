"""The provider: sandboxes of one Modal App."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agent_env.errors import SandboxNotFound
from agent_env.plugin.sandbox import Capabilities, SandboxProvider, SandboxRecord
from agent_env.plugin.sandboxing import reaping
from agent_env.plugin.sandboxing.codebox import CodeBoxes
from agent_env.plugin.sandboxing.creates import Creates
from agent_env.plugin.sandboxing.options import read_options
from agent_env.plugin.sandboxing.pacing import Pace
from agent_env.plugin.sandboxing.tasks import Tasks
from agent_env.sandboxes.modal import planning, tags
from agent_env.sandboxes.modal.account import Account
from agent_env.sandboxes.modal.creation import Creator
from agent_env.sandboxes.modal.ending import end
from agent_env.sandboxes.modal.failures import NAME
from agent_env.sandboxes.modal.images import Images
from agent_env.sandboxes.modal.keeper import Keeper
from agent_env.sandboxes.modal.listing import every, find
from agent_env.sandboxes.modal.options import ModalOptions
from agent_env.sandboxes.modal.reaching import Prober
from agent_env.sandboxes.modal.sandbox import ModalSandbox

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from agent_env.plugin.sandbox import CodeRequest, Image, SandboxSpec
    from agent_env.sandboxes.modal.sdk import SdkSandbox

log = logging.getLogger("agent_env.sandboxes.modal")

_CLOSE_DEADLINE = 60.0
_ENDS_AT_ONCE = 16


class ModalProvider(SandboxProvider):
    """Envs as sandboxes of Modal. Options: `agent_env.sandboxes.modal.options.ModalOptions`."""

    name: str = NAME
    capabilities: Capabilities = Capabilities(
        isolation="container",
        endpoint="https",
        extend=False,
        max_ttl_s=planning.MAX_TTL_S,
        network_none=True,
        limits=frozenset({"cpu", "memory_mb"}),
        server_ttl=True,
    )

    def __init__(self, **options: Any) -> None:
        self.options = read_options(ModalOptions, NAME, options)
        self.capabilities = replace(self.capabilities, isolation=planning.isolation_of(self.options))
        self.tasks = Tasks()
        self.prober = Prober()
        self._account = Account(self.options)
        self._images = Images(self._account, self.options.build_timeout_s)
        self._keeper = Keeper(self.options.idle_timeout_s)
        self._codes = CodeBoxes(lambda spec: self.create_box(spec, keep=False), lambda box: box.ended)
        self._creator: Creator | None = None
        self._unkept: dict[str, ModalSandbox] = {}
        self._attached: list[ModalSandbox] = []
        self._creates = Creates(NAME, self.end)
        self._sweeper = reaping.Sweeper(self.reap, NAME)
        self._ends = asyncio.Semaphore(_ENDS_AT_ONCE)
        self._closing: asyncio.Task[None] | None = None

    # -- life ---------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        self._creates.check_open()
        await self._account.open()
        await self.reap()
        self._sweeper.start()

    async def close(self) -> None:
        self._creates.refuse()
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(), name="modal close")
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        await self._sweeper.close()
        await self._images.close()
        await self._codes.close()
        await self._creates.close()
        await self._keeper.close()
        boxes = [*self._keeper.boxes, *self._unkept.values()]
        for result in await asyncio.gather(*(box.close() for box in boxes), return_exceptions=True):
            if isinstance(result, BaseException):
                log.warning("a sandbox was not ended; it ends by its own life: %s", result)
        if cut := await self.tasks.wait(_CLOSE_DEADLINE):
            log.warning("%d tasks of the modal provider were cut short; what they left ends by its own life", cut)
        for box in self._attached:
            await box.detach()
        await self.prober.close()
        await self._account.close()

    # -- create -------------------------------------------------------------------------------------------------------

    async def prepare(self, image: Image, *, progress: Callable[[str], None] | None = None) -> None:
        self._creates.check_open()
        await self._images.get(image, progress)

    async def create(self, spec: SandboxSpec, *, timeout: float = 300.0) -> ModalSandbox:
        return await self.create_box(spec, timeout=timeout)

    async def create_box(self, spec: SandboxSpec, *, keep: bool = True, timeout: float = 300.0) -> ModalSandbox:
        """As `create`; with ``keep`` false Modal may end it as idle."""
        until = asyncio.get_running_loop().time() + timeout
        return await self._creates.run(self._create(spec, until, keep=keep), spec.label, timeout)

    async def _create(self, spec: SandboxSpec, until: float, *, keep: bool) -> ModalSandbox:
        if self._creator is None:
            await self._account.open()
            pace = Pace(
                f"modal-{self._account.key}",
                rate=self.options.create_rate,
                burst=max(1, round(self.options.create_rate)),
                concurrency=self.options.max_creates,
            )
            self._creator = Creator(self, self._account, self._images, pace)
        box = await self._creator.create(spec, until)
        if keep:
            self._keeper.add(box)
        else:
            self._unkept[box.id] = box
        return box

    async def run_code(self, image: Image, request: CodeRequest) -> Any:
        self._creates.check_open()
        return await self._codes.run(image, request)

    # -- ends ---------------------------------------------------------------------------------------------------------

    def end(self, box: ModalSandbox) -> asyncio.Task[None]:
        """End a sandbox by a task that the provider waits for."""
        return self.tasks.start(self._end(box), f"modal end {box.id}")

    async def _end(self, box: ModalSandbox) -> None:
        async with self._ends:
            await box.terminate()
        self._keeper.discard(box)
        self._unkept.pop(box.id, None)

    # -- others' sandboxes --------------------------------------------------------------------------------------------

    async def _find(self, sandbox_id: str) -> tuple[SdkSandbox, tags.Found] | None:
        client, _ = await self._account.open()
        return await find(client, sandbox_id)

    async def attach(self, sandbox_id: str) -> ModalSandbox:
        box = self._keeper.get(sandbox_id)
        if box is not None and not box.ended:
            return box
        found = await self._find(sandbox_id)
        if found is None:
            raise SandboxNotFound(f"no sandbox has the id {sandbox_id!r}", provider=NAME, sandbox_id=sandbox_id)
        box = ModalSandbox(self, *found, isolation=self.capabilities.isolation, ours=False)
        self._attached.append(box)
        return box

    async def list(self, labels: Mapping[str, str] | None = None) -> AsyncIterator[SandboxRecord]:
        client, app = await self._account.open()
        for _, found in await every(client, app, labels):
            yield found.record()

    async def destroy(self, sandbox_id: str) -> bool:
        box = self._keeper.get(sandbox_id) or self._unkept.get(sandbox_id)
        if box is not None and not box.ended:
            await box.close()
            return True
        found = await self._find(sandbox_id)
        return found is not None and await self._remove(found[0])

    async def _remove(self, made: SdkSandbox) -> bool:
        async with self._ends:
            return await end(made)

    async def reap(self, *, older_than_s: float | None = None) -> Sequence[str]:
        client, app = await self._account.open()
        listed = await every(client, app)
        boxes = {found.id: made for made, found in listed}
        return await reaping.reap((found for _, found in listed), lambda one: self._remove(boxes[one.id]), older_than_s)
