"""Cgroups for sandboxes with limits, one cell each: made before the first process, removed after the last."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING

from agent_env.errors import SandboxUnavailable, SandboxUnsupported
from agent_env.sandboxes.process import cgroups
from agent_env.sandboxes.process.cell import Cell, number
from agent_env.sandboxes.process.keeper import cells
from agent_env.sandboxes.process.keeper.files import write_json

if TYPE_CHECKING:
    from pathlib import Path

    from agent_env.sandboxes.process.cgroups import Cgroups, Hierarchy
    from agent_env.sandboxes.process.limits import Limits
    from agent_env.sandboxes.process.link import Held

_REMOVAL_S = 10.0
_ROUNDS = 200


class Cells:
    """The cells of one server run."""

    def __init__(self, here: Cgroups, group: Path) -> None:
        self._here = here
        self._group = group
        self._open: set[Hierarchy] = set()
        self._named: list[str] = []
        self._opening = asyncio.Lock()
        self._closed = False
        self._tasks: set[asyncio.Task[None]] = set()

    async def make(self, name: str, limits: Limits, *, label: str, together: bool) -> Cell:
        """A new cell.

        Raises:
            SandboxUnsupported: the kernel does not take the limits. SandboxUnavailable: this object is closed.
        """
        if self._closed:
            raise SandboxUnavailable(f"{label}: the process that keeps sandboxes is gone", provider="process")
        wanted = [one for one in self._here.hierarchies if limits.controllers & set(one.controllers)]
        folders = tuple(f"{self._run(one)}/{name}" for one in wanted)
        cell = Cell(folders, limits, together=together)
        making = asyncio.create_task(self._make(cell, wanted))
        self._tasks.add(making)
        making.add_done_callback(self._tasks.discard)
        try:
            await asyncio.shield(making)
        except OSError as error:
            await self.remove(cell)
            raise SandboxUnsupported(
                f"{label}: its limits cannot be kept: {error.filename}: {error.strerror}", provider="process"
            ) from error
        except asyncio.CancelledError:
            making.add_done_callback(lambda done: (done.cancelled() or done.exception(), self.remove(cell)))
            raise
        return cell

    def _run(self, hierarchy: Hierarchy) -> str:
        return f"{hierarchy.home}/agentenv-{self._group.name}"

    async def _make(self, cell: Cell, wanted: list[Hierarchy]) -> None:
        async with self._opening:
            for one in wanted:
                if one not in self._open:
                    await asyncio.to_thread(self._open_run, one)
                    self._open.add(one)
        await asyncio.to_thread(_make, cell, wanted)
        if cell.event >= 0:
            asyncio.get_running_loop().add_reader(cell.event, cell.on_memory)

    def _open_run(self, hierarchy: Hierarchy) -> None:
        """Make this run's folder in a hierarchy, after its name is on record."""
        run = self._run(hierarchy)
        if run not in self._named:
            self._named.append(run)
            write_json(str(self._group / cells.RECORD), {"runs": self._named})
        if hierarchy.version == 2:
            if not cgroups.is_root(hierarchy.home):
                _move_out(hierarchy.home)
            _enable(hierarchy.home, hierarchy.controllers)
        with contextlib.suppress(FileExistsError):
            os.mkdir(run)  # noqa: PTH102
        if hierarchy.version == 2:
            _enable(run, hierarchy.controllers)
        elif number(f"{run}/memory.use_hierarchy") == 0 and "memory" in hierarchy.controllers:
            _write(f"{run}/memory.use_hierarchy", "1")

    def follow(self, cell: Cell, held: Held) -> None:
        """Remove the cell when what is held has ended."""
        held.cell = cell
        held.ended.add_done_callback(lambda _: self.remove(cell))

    def remove(self, cell: Cell) -> asyncio.Task[None]:
        """Kill what is left in a cell and remove it; a task of this object, which does not fail."""
        if cell.removal is None:
            cell.hint()
            cell.unwatch()
            cell.removal = asyncio.create_task(_remove(cell))
            self._tasks.add(cell.removal)
            cell.removal.add_done_callback(self._tasks.discard)
        return cell.removal

    async def kill(self, cell: Cell) -> None:
        """Kill what is in a cell at once, whatever it forks meanwhile."""
        cell.hint()
        await asyncio.to_thread(cells.kill, cell.folders)

    async def stop(self) -> None:
        """Make no more; what is being made is there or not."""
        self._closed = True
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def close(self) -> None:
        """Stop, wait for removals, and remove this run's own folders."""
        await self.stop()
        if self._named:
            await asyncio.to_thread(cells.remove, tuple(self._named), _REMOVAL_S)


def folders_of(folder: Path) -> tuple[str, ...]:
    """The cells of a sandbox of any server run by its folder, as far as they are there.

    They are not read from its own record: a forked env could write there what it likes.
    """
    group = folder.parents[2] if folder.parent.name == "kids" else folder.parent
    paths = (f"{run}/{folder.name}" for run in cells.runs(str(group)))
    return tuple(path for path in paths if os.path.isdir(path))  # noqa: PTH112


async def _remove(cell: Cell) -> None:
    await asyncio.to_thread(cells.remove, cell.folders, _REMOVAL_S)


def _make(cell: Cell, wanted: list[Hierarchy]) -> None:
    for hierarchy, folder in zip(wanted, cell.folders, strict=True):
        os.mkdir(folder)  # noqa: PTH102
        for name, text, may_miss in cell.limits.files(hierarchy.version, hierarchy.controllers, together=cell.together):
            try:
                _write(f"{folder}/{name}", text)
            except OSError:
                if not may_miss:
                    raise
        os.mkdir(f"{folder}/{cells.BOX}")  # noqa: PTH102
        if cell.together and os.path.exists(f"{folder}/memory.oom_control"):  # noqa: PTH110
            cell.event = _memory_event(folder)


def _memory_event(folder: str) -> int:
    """Version 1: a descriptor that can be read when memory lacks; -1 where the kernel has no such thing."""
    event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
    try:
        fd = os.open(f"{folder}/memory.oom_control", os.O_RDONLY | os.O_CLOEXEC)
        try:
            _write(f"{folder}/cgroup.event_control", f"{event} {fd}")
        finally:
            os.close(fd)
    except OSError:
        os.close(event)
        return -1
    return event


def _move_out(home: str) -> None:
    """Move the processes of a cgroup into a leaf of it."""
    leaf = f"{home}/{cgroups.LEAF}"
    with contextlib.suppress(FileExistsError):
        os.mkdir(leaf)  # noqa: PTH102
    for _ in range(_ROUNDS):
        with open(f"{home}/cgroup.procs", encoding="ascii") as file:  # noqa: PTH123
            pids = file.read().split()
        if not pids:
            return
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                _write(f"{leaf}/cgroup.procs", pid)


def _enable(folder: str, controllers: tuple[str, ...]) -> None:
    for controller in controllers:
        _write(f"{folder}/cgroup.subtree_control", f"+{controller}")


def _write(path: str, text: str) -> None:
    try:
        with open(path, "w", encoding="ascii") as file:  # noqa: PTH123
            file.write(text)
    except OSError as error:  # a failed write does not say to which file
        raise type(error)(error.errno, error.strerror, path) from error
