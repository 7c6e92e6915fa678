"""CPU seconds of a process and everything it starts: a cgroup of its own where one can be made, else /proc."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
V1 = Path("/sys/fs/cgroup/cpuacct")


class CpuMeter:
    """Counts the CPU of a process tree from the moment the process is put in."""

    def __init__(self, name: str) -> None:
        self._name = f"agentenv-bench-{os.getpid()}-{name}"
        self._group: Path | None = None
        self._root = 0
        with contextlib.suppress(OSError):
            group = V1 / self._name
            group.mkdir()
            self._group = group

    @property
    def how(self) -> str:
        """What the figures come from."""
        return "cgroup" if self._group is not None else "/proc"

    def enter(self, pid: int) -> None:
        """Count process ``pid`` and what it starts from now on."""
        self._root = pid
        if self._group is not None:
            (self._group / "cgroup.procs").write_text(str(pid))

    def seconds(self) -> float:
        """CPU seconds so far."""
        if self._group is not None:
            return int((self._group / "cpuacct.usage").read_text()) / 1e9
        return sum(map(_cpu, _tree(self._root)))

    def close(self) -> None:
        """Remove the cgroup once its processes have ended."""
        if self._group is not None:
            with contextlib.suppress(OSError):
                self._group.rmdir()


def _stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return []


def _cpu(pid: int) -> float:
    fields = _stat(pid)
    return sum(map(int, fields[11:15])) / TICKS if fields else 0.0


def _tree(root: int) -> list[int]:
    parents = {pid: int(fields[1]) for pid in _pids() if (fields := _stat(pid))}
    found = [root]
    for pid in found:
        found.extend(child for child, parent in parents.items() if parent == pid)
    return found


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
