"""The provider: sandboxes are processes of this machine."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from agent_env.errors import (
    CreateFailed,
    SandboxError,
    SandboxNotFound,
    SandboxTimeout,
    SandboxUnavailable,
    SandboxUnsupported,
    UsageError,
)
from agent_env.plugin.sandbox import Capabilities, Endpoint, ExecResult, SandboxProvider, SandboxRecord, SandboxSpec
from agent_env.plugin.sandboxing import lease
from agent_env.sandboxes.process import code, commands, reaper, sandbox, state
from agent_env.sandboxes.process.cell import Cell, close
from agent_env.sandboxes.process.cells import Cells
from agent_env.sandboxes.process.forks import Forks
from agent_env.sandboxes.process.keepers import SpawnerProcess
from agent_env.sandboxes.process.options import ProcessOptions
from agent_env.sandboxes.process.planning import Planner
from agent_env.sandboxes.process.ports import Ports
from agent_env.sandboxes.process.readiness import URL, wait_forked, wait_ready
from agent_env.sandboxes.process.sandbox import ProcessSandbox
from pydantic import ValidationError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from pathlib import Path

    from agent_env.plugin.sandbox import CodeRequest, Image
    from agent_env.sandboxes.process.link import Held, Link

log = logging.getLogger("agent_env.sandboxes.process")

_END_TIMEOUT = 10.0


class ProcessProvider(SandboxProvider):
    """Envs as local processes. Options: `agent_env.sandboxes.process.options.ProcessOptions`."""

    name: str = "process"
    capabilities: Capabilities = Capabilities(isolation="none", endpoint="uds", network_none=False, local=True)

    _counter: ClassVar[itertools.count[int]] = itertools.count(1)

    def __init__(self, **options: Any) -> None:
        try:
            self.options = ProcessOptions(**options)
        except ValidationError as error:
            problems = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
            raise UsageError(f"options of the process sandbox: {problems}") from error
        self._ports = Ports()
        self._starting: asyncio.Task[None] | None = None
        self._spawner: SpawnerProcess | None = None
        self._root: Path | None = None
        self._group: Path | None = None
        self._planner: Planner | None = None
        self._forks: Forks | None = None
        self._cells: Cells | None = None
        self._under_way = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False

    # -- life ---------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        if self._closed:
            raise SandboxUnavailable("the process provider is closed", provider=self.name, retryable=False)
        if self._starting is None or (self._starting.done() and self._needs_start()):
            self._starting = asyncio.create_task(self._start())
        await asyncio.shield(self._starting)

    def _needs_start(self) -> bool:
        return self._spawner is None or not self._spawner.link.alive

    async def _start(self) -> None:
        if self._spawner is not None:  # it was lost, with all it held
            await self._hang_up()
        self._root = await asyncio.to_thread(state.state_root, self.options.state_dir)
        await asyncio.to_thread(reaper.reap, self._root)
        self._group = await asyncio.to_thread(state.new_group, self._root)
        self._spawner = await SpawnerProcess.start(self._group)
        if self._planner is None:
            self._planner = await Planner.make(self.options, self._ports)
            self.capabilities = replace(self.capabilities, limits=self._planner.cgroups.limits)
            if self._planner.bubblewrap is not None:
                self.capabilities = replace(self.capabilities, isolation="namespace", network_none=True)
            else:
                log.warning(
                    "envs and verifiers run as plain processes of this user, without isolation (isolation: none): %s; "
                    "install bubblewrap, or take another sandbox provider such as docker, before you play what you "
                    "do not trust",
                    self._planner.why_not,
                )
        self._cells = Cells(self._planner.cgroups, self._group)
        self._forks = Forks(self._spawner.link, self._planner, self._group, self.options, self._counter)

    async def _ready(self) -> tuple[Link, Planner, Forks, Path, Cells]:
        await self.start()
        spawner, planner, forks, group, cells = self._spawner, self._planner, self._forks, self._group, self._cells
        if spawner is None or planner is None or forks is None or group is None or cells is None:
            raise SandboxUnavailable("the process provider is closed", provider=self.name, retryable=False)
        return spawner.link, planner, forks, group, cells

    async def close(self) -> None:
        self._closed = True
        await asyncio.shield(asyncio.ensure_future(self._close()))

    async def _close(self) -> None:
        if self._starting is not None:
            await asyncio.wait([self._starting])
        if self._planner is not None:
            await self._planner.pythons.close()
        await self._hang_up()
        await self._idle.wait()
        if self._cells is not None:  # of creates that ended meanwhile
            await self._cells.close()

    async def _hang_up(self) -> None:
        forks, self._forks = self._forks, None
        spawner, self._spawner = self._spawner, None
        if self._cells is not None:  # the spawner removes the record of the cgroups that it finds
            await self._cells.stop()
        if forks is not None:
            await forks.close()
        if spawner is not None:
            await spawner.quit()
        if self._cells is not None:
            await self._cells.close()
        if self._group is not None:  # a keeper that was killed could not clean up
            await asyncio.to_thread(reaper.end_group, self._group)

    # -- create -------------------------------------------------------------------------------------------------------

    async def prepare(self, image: Image, *, progress: Callable[[str], None] | None = None) -> None:
        _, planner, forks, *_ = await self._ready()
        settings, interpreter = await planner.resolve(image, progress)
        if settings is not None:  # a zygote's imports are not part of the first episode
            await forks.zygote(SandboxSpec(image=image), settings, interpreter, progress)

    async def create(self, spec: SandboxSpec, *, timeout: float = 300.0) -> ProcessSandbox:
        if self._closed:
            raise SandboxUnavailable("the process provider is closed", provider=self.name, retryable=False)
        self._under_way += 1
        self._idle.clear()
        try:
            async with asyncio.timeout(timeout):
                return await self._create(spec)
        except TimeoutError as error:
            raise SandboxTimeout(f"{spec.label}: not created within {timeout:g} s", provider=self.name) from error
        finally:
            self._under_way -= 1
            if self._under_way == 0:
                self._idle.set()

    async def _create(self, spec: SandboxSpec) -> ProcessSandbox:
        link, planner, forks, group, cells = await self._ready()
        planner.refuse(spec)
        settings, interpreter = await planner.resolve(spec.image)
        zygote = await forks.zygote(spec, settings, interpreter) if settings is not None and spec.serves else None
        name = f"{next(self._counter):08x}"
        limits = planner.cell_limits(spec, forked=zygote is not None)
        cell = await cells.make(name, limits, label=spec.label, together=spec.serves) if limits else None
        try:
            if zygote is not None and settings is not None:
                link, identity_, folder = zygote.link, f"{zygote.id}-{name}", zygote.folder / "kids" / name
                plan = forks.plan(spec, settings, interpreter, zygote, name)
            else:
                identity_, folder = f"{group.name}-{name}", group / name
                plan = await planner.plan(spec, settings, interpreter, identity_, folder)
        except BaseException:
            if cell is not None:
                cells.remove(cell)
            raise
        now = time.time()
        meta: dict[str, Any] = {
            "id": identity_,
            "labels": {"agentenv": "process", "label": spec.label, **spec.labels},
            "created_at": now,
            "expires_at": now + spec.ttl_s,
            "owner": lease.owner(),
            "launch": plan.launch.record(),
        }
        if zygote is not None:
            meta["endpoint"] = {"url": URL, "uds": str(folder / "sock" / "s")}
        held = link.held(identity_)
        request: dict[str, Any] = {
            "id": identity_,
            "dir": str(folder),
            "meta": meta,
            "grace": self.options.grace_s,
            "log": self.options.log_kb * 1024,
            **plan.message,
        }
        try:
            if cell is None:
                link.post(request)
            else:
                cells.follow(cell, held)
                _post_limited(link, request, cell, forked=zygote is not None)
            await asyncio.wait([held.started])
            if not held.started.result():
                raise self._not_started(spec, held)
            endpoint: Endpoint | None = None
            if zygote is not None:
                endpoint = await wait_forked(spec, held, folder)
            elif spec.serves:
                endpoint = await wait_ready(spec, plan, held, folder, link)
            if zygote is None:
                record = {"url": endpoint.url, "uds": endpoint.uds} if endpoint is not None else None
                link.post({"op": "ready", "id": identity_, "endpoint": record})
                either: list[asyncio.Future[Any]] = [held.ready, held.ended]
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        except ValueError as error:
            self._drop(link, held, plan.launch.port)
            raise SandboxUnsupported(f"{spec.label}: {error}", provider=self.name) from error
        except BaseException:
            self._drop(link, held, plan.launch.port)
            raise
        return ProcessSandbox(
            self,
            folder,
            plan.launch,
            sandbox_id=identity_,
            labels=meta["labels"],
            expires_at=meta["expires_at"],
            endpoint=endpoint,
            held=held,
            link=link,
        )

    async def run_code(self, image: Image, request: CodeRequest) -> Any:
        _, planner, forks, _, cells = await self._ready()
        _, interpreter = await planner.resolve(image)
        host = await forks.code_host(interpreter)
        name = f"{next(self._counter):08x}"
        limits = planner.code_limits()
        cell = await cells.make(name, limits, label=request.file, together=True) if limits else None
        try:
            return await code.run_code(
                host,
                name,
                request,
                env=forks.code_environment(interpreter),
                limits=planner.limits(),
                log=self.options.log_kb * 1024,
                cell=cell,
            )
        finally:
            if cell is not None:
                await asyncio.shield(cells.remove(cell))

    def _not_started(self, spec: SandboxSpec, held: Held) -> SandboxError:
        if held.lost:
            return SandboxUnavailable(f"{spec.label}: {held.error}", provider=self.name)
        return CreateFailed(f"{spec.label}: {held.error}", provider=self.name)

    def _drop(self, link: Link, held: Held, port: int) -> None:
        """End what was begun; nothing is waited for, so that a cancelled create ends at once."""
        link.post({"op": "end", "id": held.id})
        self._ports.give_back(port)

    # -- what sandboxes ask -------------------------------------------------------------------------------------------

    async def exec_in(
        self,
        box: ProcessSandbox,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str] | None,
        stdin: bytes | None,
        timeout: float,
        max_output: int,
    ) -> ExecResult:
        """Run a command in a sandbox."""
        link, planner, *_ = await self._ready()
        box.check_killed()
        identity_ = f"exec{next(self._counter):08x}"
        message = await planner.exec_message(box, list(argv), cwd, dict(env or {}))
        done = await commands.run(
            link, identity_, message, stdin=stdin, timeout=timeout, max_output=max_output, cell=box.cell
        )
        box.check_killed()
        return done

    def extended(self, box: ProcessSandbox) -> None:
        """A sandbox got a new expiry, which its file holds: its keeper plans anew."""
        if box.link is not None and box.expires_at is not None:
            box.link.post({"op": "extend", "id": box.id, "expires_at": box.expires_at})

    async def end(self, box: ProcessSandbox, held: Held | None) -> None:
        """End a sandbox, ours through its keeper, another server's by its record."""
        if held is None or box.link is None:
            await asyncio.to_thread(reaper.end_record, box.folder)
            return
        if self._spawner is not None and self._spawner.link is not box.link:
            self._spawner.link.post({"op": "sweep", "id": box.id})
        if held.cell is not None and self._cells is not None and not held.ended.done() and not self.options.grace_s:
            await self._cells.kill(held.cell)
        box.link.post({"op": "end", "id": box.id})
        await asyncio.wait([held.ended], timeout=_END_TIMEOUT)
        if held.cell is not None and self._cells is not None and held.ended.done():
            await self._cells.remove(held.cell)
        self._ports.give_back(box.launch.port)
        if not held.ended.done():
            raise SandboxTimeout(f"sandbox {box.id} did not end within {_END_TIMEOUT:g} s", provider=self.name)

    # -- others' sandboxes --------------------------------------------------------------------------------------------

    async def _state(self) -> Path:
        if self._root is None:
            self._root = await asyncio.to_thread(state.state_root, self.options.state_dir)
        return self._root

    async def attach(self, sandbox_id: str) -> ProcessSandbox:
        folder = state.folder_of(await self._state(), sandbox_id)
        if folder is None:
            raise SandboxNotFound(f"no sandbox has the id {sandbox_id!r}", provider=self.name, sandbox_id=sandbox_id)
        return sandbox.from_record(self, folder, sandbox_id)

    async def list(self, labels: Mapping[str, str] | None = None) -> AsyncIterator[SandboxRecord]:
        for meta in await asyncio.to_thread(reaper.records, await self._state()):
            if all(meta["labels"].get(key) == value for key, value in (labels or {}).items()):
                yield SandboxRecord(
                    id=meta["id"],
                    labels=meta["labels"],
                    created_at=meta["created_at"],
                    expires_at=meta["expires_at"],
                    owner_alive=lease.alive(meta["owner"]),
                    status=sandbox.status_of(meta),
                )

    async def destroy(self, sandbox_id: str) -> bool:
        folder = state.folder_of(await self._state(), sandbox_id)
        if folder is None:
            return False
        if self._spawner is not None and self._group is not None and folder.parent == self._group:
            held = self._spawner.link.held_by_id(sandbox_id)
            if held is not None:
                self._spawner.link.post({"op": "end", "id": sandbox_id})
                await asyncio.wait([held.ended], timeout=_END_TIMEOUT)
                return True
        await asyncio.to_thread(reaper.end_record, folder)
        return True

    async def reap(self, *, older_than_s: float | None = None) -> Sequence[str]:
        return await asyncio.to_thread(reaper.reap, await self._state(), older_than_s)


def _post_limited(link: Link, request: dict[str, Any], cell: Cell, *, forked: bool) -> None:
    """Post a request for a process that enters a cell: a forked one sees no cgroup, and gets descriptors."""
    fds: list[int] = []
    try:
        if forked:
            fds = cell.open()
        else:
            request = {**request, "cells": cell.files}
        link.post(request, fds)
    except OSError as error:
        raise SandboxUnavailable(f"the cgroup of {request['id']} is gone: {error}", provider="process") from error
    finally:
        close(fds)
