"""Who owns a sandbox: host, boot, pid namespace, pid and its start time: enough to know whether the owner still runs.

A provider writes `owner` into a label or file of everything it makes, and asks `alive` before it ends what another
server made: what a live owner holds is never touched, what another host owns only after its expiry.
"""

from __future__ import annotations

import functools
import os
import secrets
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def new_id() -> str:
    """An id for one create: made before the request, so that what a lost answer made can be found."""
    return secrets.token_hex(8)


@functools.cache
def machine() -> dict[str, str]:
    """Host name, boot id and pid namespace of this process."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        boot = "unknown"
    try:
        namespace = os.readlink("/proc/self/ns/pid")  # noqa: PTH115
    except OSError:
        namespace = "unknown"
    return {"host": socket.gethostname(), "boot": boot, "pidns": namespace}


def start_time(pid: int) -> int | None:
    """Clock ticks after boot at which the process started: with the pid its identity; None when there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            data = file.read()
        return int(data[data.rindex(b")") + 2 :].split()[19])
    except (OSError, ValueError, IndexError):
        return None


@functools.cache
def _process(pid: int) -> dict[str, Any]:
    return {**machine(), "pid": pid, "start": start_time(pid)}


def owner() -> dict[str, Any]:
    """The identity of this process, as JSON values."""
    return _process(os.getpid())


def alive(owner: Mapping[str, Any]) -> bool | None:
    """Whether the owner runs; None when it lives on another host or in another pid namespace."""
    here = machine()
    if owner.get("host") != here["host"]:
        return None
    if owner.get("boot") != here["boot"]:
        return False
    if owner.get("pidns") != here["pidns"]:
        return None
    pid = owner.get("pid")
    return isinstance(pid, int) and owner.get("start") is not None and start_time(pid) == owner["start"]


def may_reap(
    owner: Mapping[str, Any],
    *,
    created_at: float,
    expires_at: float | None,
    now: float,
    older_than_s: float | None = None,
) -> bool:
    """Whether what this owner made may be ended by somebody else.

    Args:
        owner: as `owner` wrote it; empty when it is not known.
        created_at: Unix time.
        expires_at: Unix time, or `None` when it is not known.
        now: Unix time.
        older_than_s: owners that cannot be seen from here: also what they made longer ago than this.
    """
    living = alive(owner)
    if living is not None:
        return not living
    expired = expires_at is not None and expires_at <= now
    return expired or (older_than_s is not None and created_at <= now - older_than_s)
