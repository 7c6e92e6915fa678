"""The provider: sandboxes are containers of one Docker engine."""

from __future__ import annotations

import asyncio
import os
import socket
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agent_env.errors import SandboxNotFound, SandboxUnavailable
from agent_env.plugin.sandbox import Capabilities, SandboxProvider, SandboxRecord
from agent_env.plugin.sandboxing import lease, reaping
from agent_env.plugin.sandboxing.creates import Creates
from agent_env.plugin.sandboxing.once import Once
from agent_env.plugin.sandboxing.options import read_options
from agent_env.plugin.sandboxing.tasks import Tasks
from agent_env.sandboxes.docker import containers, files, guarding, state
from agent_env.sandboxes.docker import labels as marks
from agent_env.sandboxes.docker.codebox import CodeBoxes
from agent_env.sandboxes.docker.creation import Creator, Turn
from agent_env.sandboxes.docker.engine import Engine
from agent_env.sandboxes.docker.execs import Kills
from agent_env.sandboxes.docker.failures import NAME, EngineError, to_error
from agent_env.sandboxes.docker.images import Images
from agent_env.sandboxes.docker.options import DockerOptions
from agent_env.sandboxes.docker.plan import Machine
from agent_env.sandboxes.docker.readiness import Reach
from agent_env.sandboxes.docker.sandbox import DockerSandbox
from agent_env.sandboxes.docker.watch import Watch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from pathlib import Path

    from agent_env.plugin.sandbox import CodeRequest, Image, SandboxSpec
    from agent_env.sandboxes.docker.plan import Way

_CLOSE_DEADLINE = 90.0


class DockerProvider(SandboxProvider):
    """Envs as containers. Options: `agent_env.sandboxes.docker.options.DockerOptions`."""

    name: str = NAME
    capabilities: Capabilities = Capabilities(
        isolation="container",
        endpoint="uds",
        network_none=True,
        limits=frozenset({"cpu", "memory_mb", "pids"}),
        local=True,
    )

    def __init__(self, **options: Any) -> None:
        self.options = read_options(DockerOptions, NAME, options)
        self.engine = Engine(self.options.host)
        self.kills = Kills(self.engine)
        self._tasks = Tasks()
        self._removals = asyncio.Semaphore(self.options.max_starts)
        self._owners: dict[str, tuple[int, int]] = {}
        self._started: Once[None, None] = Once(NAME)
        self._creator: Creator | None = None
        self._images: Images | None = None
        self._root: Path | None = None
        self._watch = Watch(self)
        self._codes = CodeBoxes(self)
        self._guard: guarding.Guard | None = None
        self._creates: Creates[DockerSandbox] = Creates(NAME, self.end)
        self._attached: list[DockerSandbox] = []
        self._closing: asyncio.Task[None] | None = None

    # -- life ---------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        self._creates.check_open()
        await self._started.get(None, lambda _: self._start())

    async def _start(self) -> None:
        root = await self._state()
        machine = await self._look()
        self.capabilities = replace(self.capabilities, limits=machine.limits)
        self._images = Images(self.engine, root, self.options.build_timeout_s)
        self._creator = Creator(self.engine, self._images, self.options, root, self._tasks, machine)
        await self.reap()
        if self.options.guard:
            self._guard = await guarding.Guard.start(self.engine.address, root)
        self._watch.start()

    async def _look(self) -> Machine:
        """What the engine is and can do."""
        await self.engine.open()
        try:
            info = await self.engine.get("info")
        except EngineError as error:
            raise to_error(error, "Docker engine") from error
        if info.get("OSType", "linux") != "linux":
            raise SandboxUnavailable("the Docker engine runs Windows containers; switch it to Linux", provider=NAME)
        # A Docker that lives in a virtual machine or was lent to this container by a socket has another host name.
        local = self.engine.address.startswith("unix://") and info.get("Name") == socket.gethostname()
        keys = {"memory_mb": "MemoryLimit", "pids": "PidsLimit", "cpu": "CpuCfsQuota"}
        limits = frozenset(name for name, key in keys.items() if info.get(key, True))
        way: Way = ("socket" if local else "tunnel") if self.options.endpoint == "auto" else self.options.endpoint
        uid = os.geteuid()
        return Machine(way=way, local=local, limits=limits, direct_uid=None if uid == 0 else uid)

    async def _ready(self) -> tuple[Creator, Images]:
        await self.start()
        self._creates.check_open()
        assert self._creator is not None
        assert self._images is not None
        return self._creator, self._images

    async def close(self) -> None:
        self._creates.refuse()
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(), name="docker close")
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        await self._started.close()  # a start that still waits for the engine is of no use any more
        if self._images is not None:
            await self._images.close()
        await self._creates.close()
        if self._creator is not None:
            await self._creator.close()
        await self._watch.close()
        for box in self._watch.boxes:
            if box.ours:
                self.end(box)
        for box in self._attached:
            await self.let_go(box)
            if box.reach is not None:
                await asyncio.to_thread(box.reach.remove_folder)
        await self.kills.close()
        left = await self._tasks.wait(_CLOSE_DEADLINE)
        if self._guard is not None:
            await self._guard.close(all_ended=left == 0)
        await self.engine.close()

    # -- create -------------------------------------------------------------------------------------------------------

    async def prepare(self, image: Image, *, progress: Callable[[str], None] | None = None) -> None:
        _, images = await self._ready()
        await images.get(image, progress)

    async def create(self, spec: SandboxSpec, *, timeout: float = 300.0) -> DockerSandbox:
        """A new sandbox; ``timeout`` does not count while `DockerOptions.max_starts` others begin before it.

        Raises:
            SandboxError: as `SandboxProvider.create`.
        """
        return await self._create_for(spec, timeout=timeout)

    async def create_for_code(self, spec: SandboxSpec) -> DockerSandbox:
        """As `create`, for code of a bundle: envs are reached from where this server reaches them."""
        return await self._create_for(spec, for_code=True)

    async def _create_for(self, spec: SandboxSpec, *, timeout: float = 300.0, for_code: bool = False) -> DockerSandbox:
        turn = Turn()
        work = self._create(spec, turn, for_code=for_code)
        return await self._creates.run(work, spec.label, timeout, wait=turn.wait)

    async def _create(self, spec: SandboxSpec, turn: Turn, *, for_code: bool) -> DockerSandbox:
        creator, _ = await self._ready()
        made = await creator.create(spec, turn, for_code=for_code)
        box = DockerSandbox(
            self,
            made.found,
            workdir=made.facts.workdir,
            user=made.facts.user,
            read_only=made.read_only,
            endpoint=made.endpoint,
            reach=made.reach,
            ours=True,
        )
        self._watch.add(box)
        return box

    async def run_code(self, image: Image, request: CodeRequest) -> Any:
        await self._ready()
        return await self._codes.run(image, request)

    @property
    def shares_loopback(self) -> bool:
        """Whether the containers for code have this machine's loopback."""
        return self._creator is not None and self._creator.machine.local

    # -- what sandboxes ask -------------------------------------------------------------------------------------------

    async def owner_ids(self, container: str, user: str) -> tuple[int, int]:
        """User and group that files of a container get."""
        found = self._owners.get(container)
        if found is None:
            found = self._owners[container] = await files.owner_ids(self.engine, container, user)
        return found

    def extended(self, box: DockerSandbox) -> None:
        """A sandbox got a new expiry."""
        if box.ours:
            self._watch.changed()

    async def let_go(self, box: DockerSandbox) -> None:
        """Close what listens on this side for a sandbox."""
        if box.reach is not None:
            await box.reach.close()

    def end(self, box: DockerSandbox) -> asyncio.Task[None]:
        """End a sandbox by a task that the provider waits for."""
        return self._tasks.start(self._end(box), f"docker end {box.id}")

    async def _end(self, box: DockerSandbox) -> None:
        async with self._removals:
            await containers.remove(self.engine, box.id)
        box.closed = True
        self._watch.discard(box)
        self._owners.pop(box.id, None)
        await self.let_go(box)
        await asyncio.to_thread(state.remove_folder, await self._state(), box.create_id)

    # -- others' sandboxes --------------------------------------------------------------------------------------------

    async def _state(self) -> Path:
        if self._root is None:
            self._root = await asyncio.to_thread(state.state_root, self.options.state_dir)
        return self._root

    async def attach(self, sandbox_id: str) -> DockerSandbox:
        for box in self._watch.boxes:
            if box.id == sandbox_id:
                return box
        inspected = await containers.inspect(self.engine, sandbox_id) if sandbox_id.isalnum() else None
        found = marks.inspected(inspected) if inspected is not None else None
        if inspected is None or found is None:
            raise SandboxNotFound(f"no sandbox has the id {sandbox_id!r}", provider=NAME, sandbox_id=sandbox_id)
        config, host = marks.part(inspected, "Config"), marks.part(inspected, "HostConfig")
        endpoint = reach = None
        if found.about.serves and found.status == "running":
            root = await self._state()
            path = ""
            if found.about.way == "tunnel":
                path = str(await asyncio.to_thread(state.new_folder, root, lease.new_id()) / "t")
            reach = Reach(self.engine, found.id, found.about, path)
            endpoint = await reach.endpoint(inspected)
            if endpoint is not None:
                endpoint = reach.pinned(endpoint)
        box = DockerSandbox(
            self,
            found,
            workdir=str(config.get("WorkingDir") or "/"),
            user=str(config.get("User") or ""),
            read_only=bool(host.get("ReadonlyRootfs")),
            endpoint=endpoint,
            reach=reach,
            ours=False,
        )
        if reach is not None:
            self._attached.append(box)
        return box

    async def list(self, labels: Mapping[str, str] | None = None) -> AsyncIterator[SandboxRecord]:
        for found in await containers.listing(self.engine, marks.filters(labels)):
            yield found.record()

    async def destroy(self, sandbox_id: str) -> bool:
        for box in self._watch.boxes:
            if box.id == sandbox_id:
                await box.close()
                return True
        inspected = await containers.inspect(self.engine, sandbox_id) if sandbox_id.isalnum() else None
        found = marks.inspected(inspected) if inspected is not None else None
        return found is not None and await self._remove(found)

    async def _remove(self, found: marks.Found) -> bool:
        async with self._removals:
            removed = await containers.remove(self.engine, found.id)
        await asyncio.to_thread(state.remove_folder, await self._state(), found.create_id)
        return removed

    async def reap(self, *, older_than_s: float | None = None) -> Sequence[str]:
        root = await self._state()
        everything = await containers.listing(self.engine, marks.filters())
        ended = await reaping.reap(everything, self._remove, older_than_s)
        await asyncio.to_thread(state.sweep, root, {found.create_id for found in everything})
        return ended
