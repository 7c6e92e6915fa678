"""The cgroups of limited sandboxes: entering, killing and removing them, in version 1 and version 2.

A cell is a folder with the limits and a folder ``box`` in it that holds the processes. So a sandbox which finds a way
to mount its own cgroup sees ``box`` as the root, and the limits stay out of its reach.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import TYPE_CHECKING

from agent_env.sandboxes.process.keeper.files import read_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

BOX = "box"
RECORD = "cgroups.json"
"""File of a server run that names its folders in the cgroup file systems, written before they are made."""

_PAUSE_S = 0.001
_MOST_PAUSE_S = 0.05


def enter(files: Iterable[int | str]) -> None:
    """Move this process into cgroups, by the paths or descriptors of their ``cgroup.procs``.

    Raises:
        OSError: it stays outside, and must not go on.
    """
    for file in files:
        fd = os.open(file, os.O_WRONLY | os.O_CLOEXEC) if isinstance(file, str) else file
        try:
            os.write(fd, b"0")
        finally:
            os.close(fd)


def tree(folder: str) -> list[str]:
    """A cgroup and those below it, the lowest first."""
    return [path for path, _, _ in os.walk(folder, topdown=False)]


def pids(folder: str) -> list[int]:
    """The processes of a cgroup and of those below it."""
    found: list[int] = []
    for path in tree(folder):
        # A process of another pid namespace is 0 here: it cannot be signalled, and 0 would mean our own group.
        with contextlib.suppress(OSError), open(f"{path}/cgroup.procs", "rb") as file:  # noqa: PTH123
            found += [int(word) for word in file.read().split() if word != b"0"]
    return found


def kill(folders: Sequence[str]) -> bool:
    """SIGKILL everything in cells; whether nothing was there any more."""
    for folder in folders:  # a fork bomb does not outrun the signals when it cannot fork
        if os.path.exists(f"{folder}/pids.max"):  # noqa: PTH110
            _write(f"{folder}/pids.max", b"0")
    left = {pid for folder in folders for pid in pids(folder)}
    if left and not any(_write(f"{folder}/cgroup.kill", b"1") for folder in folders):
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
    return not left


def _write(path: str, data: bytes) -> bool:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, data)
        finally:
            os.close(fd)
    except OSError:
        return False
    return True


def remove(folders: Sequence[str], seconds: float) -> bool:
    """Kill what is in cells and remove them; a busy one is tried again for so long. Whether all are gone."""
    deadline = time.monotonic() + seconds
    pause = _PAUSE_S
    while True:
        left = [folder for folder in folders if not _removed(folder)]
        if not left:
            return True
        if time.monotonic() >= deadline:
            return False
        kill(left)
        time.sleep(pause)  # the dying take their time
        pause = min(2 * pause, _MOST_PAUSE_S)


def _removed(folder: str) -> bool:
    for path in tree(folder):
        try:
            os.rmdir(path)  # noqa: PTH106
        except FileNotFoundError:
            continue
        except OSError:
            return False
    return True


def runs(group: str) -> list[str]:
    """The cgroup folders of a server run, as its record says."""
    record = read_json(f"{group}/{RECORD}")
    return [] if record is None else record["runs"]


def end_run(group: str, seconds: float = 5.0) -> bool:
    """Kill and remove all cells of a server run; whether nothing is left."""
    return remove(runs(group), seconds)
