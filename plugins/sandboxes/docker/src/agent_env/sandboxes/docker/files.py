"""Files of a container, as tar streams through the engine."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import posixpath
import stat
import tarfile
import tempfile
import time
from contextlib import aclosing
from typing import IO, TYPE_CHECKING, Any, cast

from agent_env.sandboxes.docker.engine import pieces
from agent_env.sandboxes.docker.failures import EngineError, to_error

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from agent_env.sandboxes.docker.engine import Engine

_IN_MEMORY = 16 << 20
_MOST_LINKS = 20
_TRANSFER_TIMEOUT = 3600.0
_GO_DIR, _GO_LINK = 1 << 31, 1 << 27
_PASSWD_MOST = 1 << 20


async def file_state(engine: Engine, container: str, path: str) -> dict[str, Any]:
    """What the engine says of a path, links followed: ``name``, ``size``, ``mode`` (Go's bits), ``path``.

    Raises:
        FileNotFoundError: there is none; SandboxError: the container is gone.
    """
    wanted = path
    for _ in range(_MOST_LINKS):
        try:
            raw = await engine.head(f"containers/{container}/archive", "X-Docker-Container-Path-Stat", {"path": path})
        except EngineError as error:
            if error.status == 404:
                await _check_container(engine, container, error)
                raise FileNotFoundError(2, "No such file in the container", wanted) from error
            raise to_error(error, f"path {wanted}", container) from error
        found = cast("dict[str, Any]", json.loads(base64.b64decode(raw)))
        found["path"] = path
        if not found["mode"] & _GO_LINK:
            return found
        path = posixpath.normpath(posixpath.join(posixpath.dirname(path), found["linkTarget"]))
    raise OSError(40, "Too many links", wanted)


async def _check_container(engine: Engine, container: str, error: EngineError) -> None:
    """A HEAD's 404 has no message: is it the container that is not there?"""
    try:
        await engine.get(f"containers/{container}/json")
    except EngineError as again:
        raise to_error(again, "file", container) from error


def is_folder(found: dict[str, Any]) -> bool:
    """Whether a state is a folder's."""
    return bool(found["mode"] & _GO_DIR)


async def fetch(engine: Engine, container: str, path: str) -> IO[bytes]:
    """The tar of a file or folder, at its start; the caller closes it."""
    target = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115
    try:
        async with (
            asyncio.timeout(_TRANSFER_TIMEOUT),
            aclosing(cast("Any", engine.read(f"containers/{container}/archive", {"path": path}))) as pieces,
        ):
            async for piece in pieces:
                await asyncio.to_thread(target.write, piece)
        target.seek(0)
        return target
    except EngineError as error:
        target.close()
        raise to_error(error, f"path {path}", container) from error
    except BaseException:
        target.close()
        raise


async def read(engine: Engine, container: str, path: str, max_bytes: int) -> bytes:
    """Content of a file."""
    found = await file_state(engine, container, path)
    if is_folder(found):
        raise IsADirectoryError(21, "Is a directory", path)
    if found["size"] > max_bytes:
        raise ValueError(f"{path} is larger than {max_bytes} bytes")
    with await fetch(engine, container, found["path"]) as packed:
        return await asyncio.to_thread(_only_file, packed, path, max_bytes)


def _only_file(packed: IO[bytes], path: str, max_bytes: int) -> bytes:
    with tarfile.open(fileobj=packed) as tar:
        for member in tar:
            file = tar.extractfile(member) if member.isreg() else None
            if file is not None:
                data = file.read(max_bytes + 1)
                if len(data) > max_bytes:
                    raise ValueError(f"{path} is larger than {max_bytes} bytes")
                return data
    raise ValueError(f"{path} is no regular file")


async def download(engine: Engine, container: str, remote: str, local: Path) -> None:
    """Copy a file or a folder's content out."""
    found = await file_state(engine, container, remote)
    with await fetch(engine, container, found["path"]) as packed:
        if is_folder(found):
            await asyncio.to_thread(_unpack_folder, packed, local)
        else:
            await asyncio.to_thread(_unpack_file, packed, local, remote)


def _unpack_file(packed: IO[bytes], local: Path, remote: str) -> None:
    with tarfile.open(fileobj=packed) as tar:
        for member in tar:
            source = tar.extractfile(member) if member.isreg() else None
            if source is not None:
                local.parent.mkdir(parents=True, exist_ok=True)
                with local.open("wb") as target:
                    while chunk := source.read(1 << 20):
                        target.write(chunk)
                return
    raise ValueError(f"{remote} is neither a file nor a folder")


def _unpack_folder(packed: IO[bytes], local: Path) -> None:
    """Files and folders below the tar's top; links and devices stay out."""
    local.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=packed) as tar:
        for member in tar:
            name = posixpath.normpath(member.name).partition("/")[2]
            parts = name.split("/")
            if not name or ".." in parts:
                continue
            target = local.joinpath(*parts)
            if member.isdir():
                target.mkdir(parents=True, exist_ok=True)
            elif member.isreg() or member.islnk():
                source = tar.extractfile(member)
                if source is not None:
                    target.parent.mkdir(parents=True, exist_ok=True)
                    with target.open("wb") as file:
                        while chunk := source.read(1 << 20):
                            file.write(chunk)


# -- into the container -----------------------------------------------------------------------------------------------


def pack_bytes(path: str, data: bytes, mode: int, owner: tuple[int, int]) -> Callable[[tarfile.TarFile], None]:
    """Puts one file into a tar."""

    def add(tar: tarfile.TarFile) -> None:
        info = _info(path.lstrip("/"), mode, owner)
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))

    return add


def pack_path(local: Path, path: str, owner: tuple[int, int]) -> Callable[[tarfile.TarFile], None]:
    """Puts a local file or a folder's content into a tar; links are followed only to files."""

    def add(tar: tarfile.TarFile) -> None:
        _pack(tar, local, path.strip("/"), owner)

    return add


def _pack(tar: tarfile.TarFile, local: Path, path: str, owner: tuple[int, int]) -> None:
    facts = local.stat()
    if stat.S_ISDIR(facts.st_mode):
        if path:
            info = _info(path, 0o755, owner)
            info.type = tarfile.DIRTYPE
            tar.addfile(info)
        for entry in sorted(local.iterdir()):
            if entry.is_file() or (entry.is_dir() and not entry.is_symlink()):
                _pack(tar, entry, f"{path}/{entry.name}".lstrip("/"), owner)
    elif stat.S_ISREG(facts.st_mode):
        info = _info(path, 0o755 if facts.st_mode & 0o100 else 0o644, owner)
        info.size = facts.st_size
        with local.open("rb") as file:
            tar.addfile(info, file)


def _info(name: str, mode: int, owner: tuple[int, int]) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.mode, info.mtime = mode, int(time.time())
    info.uid, info.gid = owner
    return info


def packed(folders: list[str], owner: tuple[int, int], add: Callable[[tarfile.TarFile], None]) -> IO[bytes]:
    """A tar of new folders and what ``add`` puts in, at its start."""
    target = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 - the caller closes it
    with tarfile.open(fileobj=target, mode="w") as tar:
        for folder in folders:
            info = _info(folder.lstrip("/"), 0o755, owner)
            info.type = tarfile.DIRTYPE
            tar.addfile(info)
        add(tar)
    target.seek(0)
    return target


async def missing_folders(engine: Engine, container: str, path: str) -> list[str]:
    """The folders above ``path`` that are not there, outermost first: they get the owner of what goes into them."""
    missing: list[str] = []
    folder = posixpath.dirname(path)
    while folder not in {"", "/"}:
        try:
            await file_state(engine, container, folder)
            break
        except FileNotFoundError:
            missing.append(folder)
        folder = posixpath.dirname(folder)
    return missing[::-1]


async def put(engine: Engine, container: str, tar: IO[bytes], what: str) -> None:
    """Unpack a tar at the container's root."""
    try:
        await engine.call(
            "PUT", f"containers/{container}/archive", params={"path": "/"}, data=pieces(tar), timeout=_TRANSFER_TIMEOUT
        )
    except EngineError as error:
        raise to_error(error, f"writing {what}", container) from error


async def owner_ids(engine: Engine, container: str, user: str) -> tuple[int, int]:
    """User and group id of a container's user, as its image names it."""
    name, _, group = user.partition(":")
    if not name:
        return 0, 0
    if name.isdigit():
        return int(name), int(group) if group.isdigit() else 0
    try:
        passwd = (await read(engine, container, "/etc/passwd", _PASSWD_MOST)).decode(errors="replace")
    except (OSError, ValueError):
        return 0, 0
    for line in passwd.splitlines():
        fields = line.split(":")
        if len(fields) > 3 and fields[0] == name and fields[2].isdigit() and fields[3].isdigit():
            return int(fields[2]), int(fields[3])
    return 0, 0
