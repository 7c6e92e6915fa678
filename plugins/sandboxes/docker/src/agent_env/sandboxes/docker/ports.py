"""What listens inside a container, as this machine's /proc tells, when the engine runs here."""

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
        ports: set[int] = set()
        for name in ("tcp", "tcp6"):
            for line in Path(f"/proc/{pid}/net/{name}").read_text(encoding="ascii").splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTEN:
                    ports.add(int(fields[1].rpartition(":")[2], 16))
    except (OSError, ValueError, IndexError):
        return None
    return sorted(ports)
