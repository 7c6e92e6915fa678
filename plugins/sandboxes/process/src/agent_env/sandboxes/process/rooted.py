"""Files below a sandbox's root, opened so that neither ``..`` nor a symlink leads out of it.

Every step of a path is opened relative to the folder before it, without following links; links are resolved by hand as
if the root were ``/``. So a path cannot be swapped between the check and the use.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_LINKS = 40


def open_in(root: Path, path: str, flags: int, *, mode: int = 0o600, make_folders: bool = False) -> int:
    """Open ``path`` as if ``root`` were ``/``.

    Raises:
        OSError: as `os.open` does.
    """
    stack = [os.open(root, _FOLDER)]
    todo = deque(path.split("/"))
    links = 0
    flags |= os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        while todo:
            part = todo.popleft()
            if part in {"", "."}:
                continue
            if part == "..":
                if len(stack) > 1:
                    os.close(stack.pop())
                continue
            last = not any(rest not in {"", "."} for rest in todo)
            try:
                kind = os.stat(part, dir_fd=stack[-1], follow_symlinks=False).st_mode
            except FileNotFoundError:
                if last and flags & os.O_CREAT:
                    return os.open(part, flags, mode, dir_fd=stack[-1])
                if not make_folders:
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from None
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o700, dir_fd=stack[-1])
                stack.append(os.open(part, _FOLDER, dir_fd=stack[-1]))
                continue
            if stat.S_ISLNK(kind):
                links += 1
                if links > _MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                target = os.readlink(part, dir_fd=stack[-1])
                if target.startswith("/"):
                    while len(stack) > 1:
                        os.close(stack.pop())
                todo.extendleft(reversed(target.split("/")))
            elif last:
                return os.open(part, flags, mode, dir_fd=stack[-1])
            else:
                stack.append(os.open(part, _FOLDER, dir_fd=stack[-1]))
        return os.open(".", flags & ~(os.O_CREAT | os.O_TRUNC | os.O_EXCL), dir_fd=stack[-1])
    finally:
        for fd in stack:
            os.close(fd)


def read_file(root: Path, path: str, max_bytes: int) -> bytes:
    """Content of a regular file.

    Raises:
        FileNotFoundError, IsADirectoryError, ValueError: as `agent_env.plugin.sandbox.Sandbox.read` says.
    """
    fd = open_in(root, path, os.O_RDONLY)
    with open(fd, "rb") as file:  # noqa: PTH123
        _check_regular(fd, path)
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise ValueError(f"{path} is larger than {max_bytes} bytes")
    return data


def _check_regular(fd: int, path: str) -> None:
    kind = os.fstat(fd).st_mode
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(kind):
        raise ValueError(f"{path} is no regular file")


def write_file(root: Path, path: str, data: bytes, mode: int | None) -> None:
    """Write a file, its folders included."""
    fd = open_in(root, path, os.O_WRONLY | os.O_CREAT, make_folders=True)
    with open(fd, "wb") as file:  # noqa: PTH123
        _check_regular(fd, path)
        os.ftruncate(fd, 0)
        file.write(data)
        if mode is not None:
            os.fchmod(fd, mode)


def upload(root: Path, local: Path, remote: str) -> None:
    """Copy a file or a folder's content in; links inside the local folder are followed only to files."""
    if local.is_dir():
        os.close(open_in(root, remote, os.O_RDONLY | os.O_DIRECTORY, make_folders=True))
        for entry in sorted(local.iterdir()):
            if entry.is_file() or (entry.is_dir() and not entry.is_symlink()):
                upload(root, entry, f"{remote.rstrip('/')}/{entry.name}")
    else:
        mode = local.stat().st_mode & 0o700 | 0o600
        fd = open_in(root, remote, os.O_WRONLY | os.O_CREAT, make_folders=True)
        with local.open("rb") as reader, open(fd, "wb") as writer:  # noqa: PTH123
            _check_regular(fd, remote)
            os.ftruncate(fd, 0)
            while chunk := reader.read(1 << 20):
                writer.write(chunk)
            os.fchmod(fd, mode)


def download(root: Path, remote: str, local: Path) -> None:
    """Copy a file or a folder out; a link is followed inside the root when it leads to a file, else left out."""
    fd = open_in(root, remote, os.O_RDONLY)
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, fd)
        kind = os.fstat(fd).st_mode
        if stat.S_ISREG(kind):
            local.parent.mkdir(parents=True, exist_ok=True)
            with open(os.dup(fd), "rb") as reader, local.open("wb") as writer:  # noqa: PTH123
                while chunk := reader.read(1 << 20):
                    writer.write(chunk)
            return
        if not stat.S_ISDIR(kind):
            raise ValueError(f"{remote} is neither a file nor a folder")
        local.mkdir(parents=True, exist_ok=True)
        with os.scandir(fd) as entries:
            found = sorted((entry.name, entry.is_symlink()) for entry in entries)
    for name, link in found:
        inner = f"{remote.rstrip('/')}/{name}"
        if not link or _is_file(root, inner):
            with contextlib.suppress(FileNotFoundError, ValueError):
                download(root, inner, local / name)


def _is_file(root: Path, path: str) -> bool:
    try:
        fd = open_in(root, path, os.O_PATH)
    except OSError:
        return False
    try:
        return stat.S_ISREG(os.fstat(fd).st_mode)
    finally:
        os.close(fd)
