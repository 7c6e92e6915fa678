"""The cgroups of one sandbox: what they count, and how they ended it."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING

from agent_env.sandboxes.process.keeper import cells

if TYPE_CHECKING:
    from agent_env.sandboxes.process.limits import Limits

_LOOK_AGAIN_S = 0.1
_SLACK = 1 << 20
_NO_MEMORY = "killed: the memory of the machine, or of the server's own cgroup, was used up"


class Cell:
    """The cgroups of one sandbox.

    Attributes:
        folders: one in each hierarchy that has a controller for its limits.
        limits: what they hold it to.
        together: a lack of memory ends all its processes.
    """

    def __init__(self, folders: tuple[str, ...], limits: Limits, *, together: bool) -> None:
        self.folders = folders
        self.limits = limits
        self.together = together
        self.event = -1
        self.removal: asyncio.Task[None] | None = None
        self._words = ""
        self._hint = ""

    @property
    def files(self) -> list[str]:
        """What a process writes itself into."""
        return files_of(self.folders)

    def open(self) -> list[int]:
        """Descriptors of `files`, for processes that cannot see them; they are the caller's."""
        fds: list[int] = []
        try:
            for path in self.files:
                fds.append(os.open(path, os.O_WRONLY | os.O_CLOEXEC))  # noqa: PERF401 - those before a failure
        except OSError:
            close(fds)
            raise
        return fds

    def kills(self) -> int:
        """How many of its processes the kernel killed for lack of memory."""
        return sum(_count(path, ("memory.events", "memory.oom_control"), "oom_kill") for path in self._all())

    def words(self) -> str:
        """How it was ended for lack of memory; empty when it was not."""
        if not self._words and self.kills():
            self._words = self._too_much() if self._reached() else _NO_MEMORY
        return self._words

    def _too_much(self) -> str:
        return f"killed: it used more than its {self.limits.memory_mb} MiB of memory"

    def hint(self) -> str:
        """`words`, else what else its limits kept it from."""
        if words := self.words():
            return words
        if not self._hint and any(_count(path, ("pids.events",), "max") for path in self._all()):
            self._hint = f"it reached its limit of {self.limits.pids} processes"
        return self._hint

    def _all(self) -> list[str]:
        # Version 1 counts where the process is, version 2 everywhere above it.
        return [path for folder in self.folders for path in (folder, f"{folder}/{cells.BOX}")]

    def _reached(self) -> bool:
        """Whether the limit was the cause, and not a cgroup above it."""
        size = (self.limits.memory_mb or 0) << 20
        for folder in self.folders:
            if _count(folder, ("memory.events",), "oom"):
                return True
            if size and number(f"{folder}/memory.max_usage_in_bytes") >= size - _SLACK:
                return True
        return False

    def on_memory(self) -> None:
        """Version 1 tells of a lack of memory here or above; what is to end together ends."""
        with contextlib.suppress(OSError):
            os.eventfd_read(self.event)
        if self._reached():
            self._words = self._too_much()
            cells.kill(self.folders)
        else:
            asyncio.get_running_loop().call_later(_LOOK_AGAIN_S, self._after_kill)

    def _after_kill(self) -> None:
        if self.removal is None and self.words():
            cells.kill(self.folders)

    def unwatch(self) -> None:
        """Hear of no more; removing a cgroup counts as an event."""
        if self.event >= 0:
            asyncio.get_running_loop().remove_reader(self.event)
            os.close(self.event)
            self.event = -1


def close(fds: list[int]) -> None:
    """Close descriptors."""
    for fd in fds:
        os.close(fd)


def files_of(folders: tuple[str, ...]) -> list[str]:
    """What a process writes itself into to be in these cells."""
    return [f"{folder}/{cells.BOX}/cgroup.procs" for folder in folders]


def number(path: str) -> int:
    """The number in a file, -1 without one."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return int(file.read())
    except (OSError, ValueError):
        return -1


def _count(folder: str, names: tuple[str, ...], key: str) -> int:
    """A number of a file of lines ``key number``, of the first file that is there."""
    for name in names:
        with contextlib.suppress(OSError, ValueError), open(f"{folder}/{name}", "rb") as file:  # noqa: PTH123
            found = dict(line.split()[:2] for line in file.read().splitlines())
            return int(found.get(key.encode(), 0))
    return 0
