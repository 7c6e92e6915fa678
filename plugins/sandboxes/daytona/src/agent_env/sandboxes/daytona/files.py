"""Files of a sandbox, by Daytona's file calls; folders go as one tar file."""

from __future__ import annotations

import asyncio
import io
import shutil
import tarfile
import tempfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from agent_env.errors import SandboxNotFound
from agent_env.sandboxes.daytona.sdk import NAME

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent_env.sandboxes.daytona.client import Api
    from agent_env.sandboxes.daytona.sdk import Remote

_SECONDS = 600
_RATE = 256 * 1024
"""Bytes a second below which a transfer counts as stuck."""


def _limit(size: int) -> int:
    return min(_SECONDS, 60 + size // _RATE)


async def put(api: Api, remote: Remote, contents: Mapping[str, bytes]) -> None:
    """Write files, their folders included, in one request."""
    limit = _limit(sum(len(data) for data in contents.values()))

    async def upload() -> None:
        files = [api.sdk.FileUpload(source=data, destination=path) for path, data in contents.items()]
        await remote.fs.upload_files(files, timeout=limit)

    await api.call(upload, f"sandbox {remote.id}: writing files", timeout=limit, sandbox_id=remote.id)


async def get(api: Api, remote: Remote, path: str, max_bytes: int) -> bytes:
    """Content of a file.

    Raises:
        FileNotFoundError, IsADirectoryError, ValueError: as `agent_env.plugin.sandbox.Sandbox.read`.
    """
    size = await _size(api, remote, path)
    if size > max_bytes:
        raise ValueError(f"{path} holds {size} bytes, more than {max_bytes}")
    if size == 0 and not path.startswith("/proc/"):
        return b""
    try:
        limit = _limit(size)
        found = await api.call(
            lambda: remote.fs.download_file(path, limit),
            f"sandbox {remote.id}: reading {path}",
            timeout=limit,
            sandbox_id=remote.id,
        )
    except SandboxNotFound as error:
        raise await _missing(api, remote, path, error) from error
    if found is not None and len(found) > max_bytes:
        raise ValueError(f"{path} holds more than {max_bytes} bytes")
    return found or b""


async def _size(api: Api, remote: Remote, path: str) -> int:
    try:
        facts = await api.call(
            lambda: remote.fs.get_file_info(path), f"sandbox {remote.id}: {path}", sandbox_id=remote.id
        )
    except SandboxNotFound as error:
        raise await _missing(api, remote, path, error) from error
    if facts.is_dir:
        raise IsADirectoryError(21, "Is a directory", path)
    return int(facts.size)


async def _missing(api: Api, remote: Remote, path: str, error: SandboxNotFound) -> Exception:
    """Whether the file or the whole sandbox is not there."""
    try:
        await api.call(lambda: api.client.get(remote.id), f"sandbox {remote.id}", sandbox_id=remote.id)
    except SandboxNotFound:
        return SandboxNotFound(f"sandbox {remote.id} has ended", provider=NAME, sandbox_id=remote.id)
    return FileNotFoundError(2, f"No such file or directory ({error})", path)


def pack(local: Path) -> bytes:
    """A folder's content as a tar file. Runs off the event loop."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1) as tar:
        for entry in sorted(local.iterdir()):
            tar.add(entry, arcname=entry.name, filter=_plain)
    return buffer.getvalue()


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Without owners, and without what is no file, folder or link."""
    if not (info.isreg() or info.isdir() or info.issym() or info.islnk()):
        return None
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info


def unpack(data: bytes, local: Path, *, is_dir: bool) -> None:
    """Write what came from a sandbox, which may want to write elsewhere: nothing leaves ``local``."""
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:*") as tar:
        if is_dir:
            local.mkdir(parents=True, exist_ok=True)
            tar.extractall(local, filter="data")
            return
        with tempfile.TemporaryDirectory(dir=local.parent) as folder:
            tar.extractall(folder, filter="data")
            found = next(Path(folder).iterdir())
            shutil.move(found, local)


async def mode_of(local: Path) -> int:
    """Permissions of a local file."""
    return (await asyncio.to_thread(local.stat)).st_mode & 0o777


def parent(path: str) -> str:
    """The folder of a path."""
    return str(PurePosixPath(path).parent)
