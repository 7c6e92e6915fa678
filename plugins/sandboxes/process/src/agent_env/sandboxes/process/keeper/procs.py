"""What /proc tells of processes, and ending them all."""

from __future__ import annotations

import contextlib
import os
import signal
import time

_ROUNDS = 400
_PAUSE_S = 0.0005
MARK = "AGENTENV_SANDBOX_ID"
"""Environment variable that marks every process of a sandbox, so that strays can be found."""


def start_time(pid: int) -> int | None:
    """Clock ticks after boot at which the process started: with the pid its identity; None when there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            data = file.read()
        return int(data[data.rindex(b")") + 2 :].split()[19])
    except (OSError, ValueError, IndexError):
        return None


def children(pid: int) -> list[int]:
    """Direct children of a process, whichever of its threads made them."""
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
            with open(f"/proc/{pid}/task/{task}/children", "rb") as file:  # noqa: PTH123
                found.extend(int(child) for child in file.read().split())
    except OSError:
        pass
    return found


def descendants(pid: int) -> list[int]:
    """All processes below a process."""
    found: list[int] = []
    todo = [pid]
    while todo:
        below = children(todo.pop())
        found.extend(below)
        todo.extend(below)
    return found


def mark_of(pid: int) -> str | None:
    """The sandbox that a process was started for, as its environment says."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123
            data = file.read()
    except OSError:
        return None
    head = f"{MARK}=".encode()
    for item in data.split(b"\0"):
        if item.startswith(head):
            return os.fsdecode(item[len(head) :])
    return None


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    """Signal a process that may be gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def kill_group(pgid: int, number: int = signal.SIGKILL) -> None:
    """Signal a process group that may be gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pgid, number)


def is_dead(pid: int) -> bool:
    """Whether a process has ended, waited for or not."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            data = file.read()
    except OSError:
        return True
    return data[data.rindex(b")") + 2 : data.rindex(b")") + 3] in b"ZX"


def kill_tree(pid: int) -> None:
    """SIGKILL the group that ``pid`` leads and everything below it, also what left the group.

    ``pid`` must be a child that was not waited for yet, so that the number still means it, and a subreaper: what its
    killed descendants leave behind comes to it and is found in the next round.
    """
    seen: set[int] = set()
    if below := set(descendants(pid)):
        kill(pid, signal.SIGSTOP)
        for _ in range(_ROUNDS):
            for other in below - seen:
                kill(other)
            seen |= below
            below = set(descendants(pid))
            # One that is not dead yet may be in the middle of a fork.
            if below <= seen and all(is_dead(other) for other in below):
                break
            time.sleep(_PAUSE_S)
    kill_group(pid)
    kill(pid)
