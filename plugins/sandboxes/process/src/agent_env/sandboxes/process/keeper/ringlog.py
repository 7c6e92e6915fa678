"""A log file that never grows beyond its limit: two halves, the older one is replaced."""

from __future__ import annotations

import os
from pathlib import Path


class RingLog:
    """Takes what a process writes to its pipe; keeps between half and all of ``limit`` bytes of the end."""

    def __init__(self, path: str, limit: int) -> None:
        self._path = path
        self._half = max(1, limit // 2)
        self._size = 0
        self._fd = -1

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)

    def write(self, data: bytes) -> None:
        """Append; a full disk loses log, never the process that writes it."""
        try:
            if self._fd >= 0 and self._size + len(data) > self._half:
                self.close()
                os.replace(self._path, self._path + ".1")  # noqa: PTH105
            if self._fd < 0:  # most processes write nothing, and have no file
                self._fd = self._open()
                self._size = 0
            self._size += os.write(self._fd, data[-self._half :])
        except OSError:
            pass

    def fileno(self) -> int:
        return self._fd

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def read_tail(path: str, tail: int) -> str:
    """The last ``tail`` bytes of a ring log."""
    data = b""
    for name in (path, path + ".1"):
        if len(data) >= tail:
            break
        try:
            with Path(name).open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                need = tail - len(data)
                file.seek(max(0, size - need))
                data = file.read(need) + data
        except OSError:
            continue
    return data[-tail:].decode(errors="replace") if tail > 0 else ""
