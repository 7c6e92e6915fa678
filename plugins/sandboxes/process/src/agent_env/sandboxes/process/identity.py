"""Who owns a sandbox: host, boot, pid namespace, pid and its start time: enough to know whether it still runs."""

from __future__ import annotations

import functools
import os
import socket
from pathlib import Path
from typing import Any

from agent_env.sandboxes.process.keeper.procs import start_time


@functools.cache
def _machine() -> dict[str, str]:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        boot = "unknown"
    try:
        namespace = os.readlink("/proc/self/ns/pid")  # noqa: PTH115
    except OSError:
        namespace = "unknown"
    return {"host": socket.gethostname(), "boot": boot, "pidns": namespace}


def pid_namespace() -> str:
    """The pid namespace of this process."""
    return _machine()["pidns"]


@functools.cache
def _process(pid: int) -> dict[str, Any]:
    return {**_machine(), "pid": pid, "start": start_time(pid)}


def me() -> dict[str, Any]:
    """The identity of this process."""
    return _process(os.getpid())


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


def alive(owner: dict[str, Any]) -> bool | None:
    """Whether the owner runs; None when it lives on another host or in another pid namespace."""
    here = _machine()
    if owner.get("host") != here["host"]:
        return None
    if owner.get("boot") != here["boot"]:
        return False
    if owner.get("pidns") != here["pidns"]:
        return None
    pid = owner.get("pid")
    return isinstance(pid, int) and owner.get("start") is not None and start_time(pid) == owner["start"]
