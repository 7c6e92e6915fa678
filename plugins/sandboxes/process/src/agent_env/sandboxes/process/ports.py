"""TCP ports for servers that cannot listen on a unix socket and have no network namespace of their own."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_LISTEN = "0A"


class Ports:
    """Hands out free ports, none of them twice at a time."""

    def __init__(self) -> None:
        self._taken: set[int] = set()

    def take(self) -> int:
        """A port that is free now."""
        while True:
            with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
                sock.bind(("127.0.0.1", 0))
                port = int(sock.getsockname()[1])
            if port not in self._taken:
                self._taken.add(port)
                return port

    def give_back(self, port: int) -> None:
        self._taken.discard(port)


def listening(pid: int | str = "self") -> dict[int, set[int]]:
    """Inodes of listening TCP sockets by port, in the network namespace of ``pid``."""
    found: dict[int, set[int]] = {}
    for table in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/{pid}/net/{table}").read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            words = line.split()
            if len(words) > 9 and words[3] == _LISTEN:
                found.setdefault(int(words[1].rpartition(":")[2], 16), set()).add(int(words[9]))
    return found


def socket_inodes(pids: Iterable[int]) -> set[int]:
    """Inodes of the sockets that these processes hold."""
    found: set[int] = set()
    for pid in pids:
        try:
            with os.scandir(f"/proc/{pid}/fd") as entries:
                for entry in entries:
                    try:
                        target = os.readlink(entry.path)  # noqa: PTH115
                    except OSError:
                        continue
                    if target.startswith("socket:["):
                        found.add(int(target[8:-1]))
        except OSError:
            continue
    return found
