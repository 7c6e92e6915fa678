"""The process of a sandbox's record, as this process sees it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from agent_env.plugin.sandboxing import lease
from agent_env.sandboxes.process.keeper.procs import start_time


def pid_namespace() -> str:
    """The pid namespace of this process."""
    return lease.machine()["pidns"]


def host_pid(meta: dict[str, Any]) -> int | None:
    """The process of a sandbox's record as this process sees it, None when it is gone.

    A forked env's pid is that of the pid namespace that it shares with its siblings.
    """
    pid, namespace = meta.get("pid") or 0, meta.get("pidns")
    if namespace == pid_namespace():
        return pid if pid and start_time(pid) == meta.get("start") else None
    for entry in os.listdir("/proc"):  # noqa: PTH208
        try:
            if not entry.isdigit() or os.readlink(f"/proc/{entry}/ns/pid") != namespace:  # noqa: PTH115
                continue
            status = Path(f"/proc/{entry}/status").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        lines = (line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:"))
        numbers = next(lines, list[str]())
        if numbers and int(numbers[-1]) == pid and start_time(int(entry)) == meta.get("start"):
            return int(entry)
    return None
