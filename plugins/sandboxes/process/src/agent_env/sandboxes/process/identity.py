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


def me() -> dict[str, Any]:
    """The identity of this process."""
    return {**_machine(), "pid": os.getpid(), "start": start_time(os.getpid())}


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
