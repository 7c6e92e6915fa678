"""What listens inside a container: as this machine's /proc tells, when the engine runs here, else by its own Python."""

from __future__ import annotations

from pathlib import Path

_LISTEN = "0A"


def listening(pid: int, container: str) -> list[int] | None:
    """TCP ports on which somebody listens in the container's network; `None` when that cannot be seen.

    Args:
        pid: its first process, as the engine says.
        container: its id; the number may mean another process here.
    """
    try:
        if container[:12] not in Path(f"/proc/{pid}/cgroup").read_text(encoding="ascii"):
            return None
        tables = [Path(f"/proc/{pid}/net/{name}").read_text(encoding="ascii") for name in ("tcp", "tcp6")]
    except (OSError, ValueError):
        return None
    return listed("".join(tables))


SHOW = "import glob, os; [os.write(1, open(path, 'rb').read()) for path in glob.glob('/proc/net/tcp*')]"
"""A program for the container's Python that writes these tables."""


def listed(tables: str) -> list[int] | None:
    """The ports on which somebody listens, by the tables of TCP sockets; `None` when they are no such tables."""
    ports: set[int] = set()
    try:
        for fields in map(str.split, tables.splitlines()):
            if fields[0] != "sl" and fields[3] == _LISTEN:
                ports.add(int(fields[1].rpartition(":")[2], 16))
    except (ValueError, IndexError):
        return None
    return sorted(ports)
