"""Copying and removing the folders of a sandbox; nothing here follows a symlink out of a folder."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any

SKIPPED = frozenset({".git", "__pycache__", ".venv", "node_modules", ".mypy_cache", ".ruff_cache", ".pytest_cache"})


def make_folders(path: str, inside: list[str]) -> None:
    """Make a sandbox's folder and those ``inside`` its root, all private."""
    os.mkdir(path, 0o700)  # noqa: PTH102
    for part in ("root", "sock", "root/tmp"):
        os.mkdir(f"{path}/{part}", 0o700)  # noqa: PTH102
    for part in inside:
        os.makedirs(f"{path}/root/{part.strip('/')}", 0o700, exist_ok=True)  # noqa: PTH103


def copy_tree(source: str, target: str) -> None:
    """Copy a folder's files, folders and symlinks; `SKIPPED` names, sockets and devices are left out."""
    os.makedirs(target, mode=0o700, exist_ok=True)  # noqa: PTH103
    with os.scandir(source) as entries:
        for entry in entries:
            goal = f"{target}/{entry.name}"
            if entry.name in SKIPPED:
                continue
            if entry.is_symlink():
                os.symlink(os.readlink(entry.path), goal)  # noqa: PTH115, PTH211
            elif entry.is_dir(follow_symlinks=False):
                copy_tree(entry.path, goal)
            elif entry.is_file(follow_symlinks=False):
                copy_file(entry.path, goal, entry.stat(follow_symlinks=False).st_mode & 0o700 | 0o600)


def copy_file(source: str, target: str, mode: int) -> None:
    """Copy one file's content."""
    with open(source, "rb") as reader:  # noqa: PTH123
        fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with open(fd, "wb") as writer:  # noqa: PTH123
            while chunk := reader.read(1 << 20):
                writer.write(chunk)


def count_entries(path: str, most: int) -> int:
    """How many entries a folder holds in all, counted up to ``most``."""
    found = 0
    todo = [path]
    while todo and found < most:
        with contextlib.suppress(OSError), os.scandir(todo.pop()) as entries:
            for entry in entries:
                found += 1
                if found >= most:
                    break
                if entry.is_dir(follow_symlinks=False):
                    todo.append(entry.path)
    return found


def remove_tree(path: str) -> None:
    """Remove a folder with all in it; what cannot be removed is left, for a later `reap`."""
    try:
        with os.scandir(path) as found:
            entries = list(found)
    except PermissionError:
        try:
            os.chmod(path, 0o700)  # noqa: PTH101
            with os.scandir(path) as found:
                entries = list(found)
        except OSError:
            return
    except OSError:
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            remove_tree(entry.path)
        else:
            try:
                os.unlink(entry.path)  # noqa: PTH108
            except OSError:
                with contextlib.suppress(OSError):
                    os.chmod(path, 0o700)  # noqa: PTH101
                    os.unlink(entry.path)  # noqa: PTH108
    with contextlib.suppress(OSError):
        os.rmdir(path)  # noqa: PTH106


def write_json(path: str, value: dict[str, Any]) -> None:
    """Write a JSON file whole or not at all."""
    fresh = f"{path}.{os.getpid()}"
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(fd, "w", encoding="utf-8") as file:  # noqa: PTH123
        json.dump(value, file)
    os.replace(fresh, path)  # noqa: PTH105


def read_json(path: str) -> dict[str, Any] | None:
    """A JSON object of a file; None when there is none to read."""
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123
            value: object = json.load(file)
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None  # pyright: ignore[reportUnknownVariableType]
