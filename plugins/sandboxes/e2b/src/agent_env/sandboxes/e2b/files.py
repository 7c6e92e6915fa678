"""Files of a sandbox: single ones through the service's file API, folders as archives."""

from __future__ import annotations

import asyncio
import os
import posixpath
import secrets
import shlex
import tarfile
import tempfile
from typing import IO, TYPE_CHECKING, Any

from agent_env.errors import SandboxError
from agent_env.plugin.sandboxing.tasks import looked_at
from agent_env.sandboxes.e2b import scripts
from agent_env.sandboxes.e2b.execs import shell
from agent_env.sandboxes.e2b.failures import is_sdk_error, to_error
from agent_env.sandboxes.e2b.sdk import sdk

if TYPE_CHECKING:
    from pathlib import Path

    from agent_env.sandboxes.e2b.sdk import SdkSandbox
    from agent_env.sandboxes.e2b.service import Service

_IN_MEMORY = 16 << 20
_TRANSFER_TIMEOUT = 3600.0


async def fetch(box: SdkSandbox, service: Service, path: str, target: IO[bytes], max_bytes: int | None) -> None:
    """Copy a file's content into ``target``.

    Raises:
        FileNotFoundError: there is none; IsADirectoryError: it is a folder; ValueError: larger than ``max_bytes``.
    """
    it = sdk()
    try:
        async with asyncio.timeout(_TRANSFER_TIMEOUT):
            reader: Any = await box.files.read(path, format="stream")
            try:
                size = 0
                async for piece in reader:
                    size += len(piece)
                    if max_bytes is not None and size > max_bytes:
                        raise ValueError(f"{path} is larger than {max_bytes} bytes")
                    await asyncio.to_thread(target.write, piece)
            finally:
                close = getattr(reader, "aclose", None)
                if close is not None:
                    await close()
    except ValueError:
        raise
    except it.errors.NotFoundException as error:
        if is_sdk_error(error, "SandboxNotFoundException"):
            raise to_error(error, f"file {path}", service, box.sandbox_id) from error
        raise FileNotFoundError(2, "No such file in the sandbox", path) from error
    except it.errors.InvalidArgumentException as error:
        if "director" in str(error).lower():
            raise IsADirectoryError(21, "Is a directory", path) from error
        raise to_error(error, f"file {path}", service, box.sandbox_id) from error
    except Exception as error:
        raise to_error(error, f"file {path}", service, box.sandbox_id) from error


async def read(box: SdkSandbox, service: Service, path: str, max_bytes: int) -> bytes:
    """Content of a file."""
    with tempfile.SpooledTemporaryFile(_IN_MEMORY) as target:
        await fetch(box, service, path, target, max_bytes)
        target.seek(0)
        return await asyncio.to_thread(target.read)


async def put(box: SdkSandbox, service: Service, path: str, data: bytes | IO[bytes], user: str | None = None) -> None:
    """Write a file; folders above it are made."""
    try:
        async with asyncio.timeout(_TRANSFER_TIMEOUT):
            await box.files.write(path, data, user=user)
    except sdk().errors.InvalidArgumentException as error:
        if "director" in str(error).lower():
            raise IsADirectoryError(21, "Is a directory", path) from error
        raise to_error(error, f"file {path}", service, box.sandbox_id) from error
    except Exception as error:
        raise to_error(error, f"file {path}", service, box.sandbox_id) from error


async def chmod(box: SdkSandbox, service: Service, path: str, mode: int) -> None:
    """Set a file's mode."""
    code, _, error = await shell(
        box, service, f"chmod {mode:o} {shlex.quote(path)}", doing=f"file {path}: chmod", user="root"
    )
    _check(code, error, f"file {path}: chmod", service, box)


async def upload(box: SdkSandbox, service: Service, local: Path, remote: str, owner: tuple[int, int]) -> None:
    """Copy a local file or a folder's content in."""
    folder = await asyncio.to_thread(local.is_dir)
    archive = f"/tmp/agentenv-{secrets.token_hex(8)}.tar"
    with await asyncio.to_thread(_pack, local, remote, owner, folder) as packed:
        await put(box, service, archive, packed, user="root")
    script = scripts.unpack(archive, remote, folder=folder)
    doing = f"upload to {remote}"
    code, _, error = await shell(box, service, script, doing=doing, user="root", timeout=_TRANSFER_TIMEOUT)
    _check(code, error, doing, service, box)


async def download(box: SdkSandbox, service: Service, remote: str, local: Path) -> None:
    """Copy a file or a folder's content out."""
    archive = f"/tmp/agentenv-{secrets.token_hex(8)}.tar"
    doing = f"download of {remote}"
    code, out, error = await shell(
        box, service, scripts.pack(remote, archive), doing=doing, user="root", timeout=_TRANSFER_TIMEOUT
    )
    kind = out.strip()
    if kind == "missing":
        raise FileNotFoundError(2, "No such file in the sandbox", remote)
    try:
        _check(code, error, doing, service, box)
        with tempfile.SpooledTemporaryFile(_IN_MEMORY) as packed:
            await fetch(box, service, archive, packed, None)
            packed.seek(0)
            if kind == "folder":
                await asyncio.to_thread(_unpack_folder, packed, local)
            else:
                await asyncio.to_thread(_unpack_file, packed, local, remote)
    finally:
        removing = shell(box, service, f"rm -f {archive}", doing=doing, user="root", timeout=20.0)
        await asyncio.shield(looked_at(asyncio.ensure_future(removing)))


async def owner_ids(box: SdkSandbox, service: Service) -> tuple[int, int]:
    """User and group that commands run as."""
    code, out, error = await shell(box, service, "id -u; id -g", doing="asking for the user")
    _check(code, error, "asking for the user", service, box)
    user, group = out.split()
    return int(user), int(group)


def _check(code: int, error: str, doing: str, service: Service, box: SdkSandbox) -> None:
    if code != 0:
        raise SandboxError(
            f"sandbox {box.sandbox_id}: {doing} failed: {error.strip()[-500:] or f'exit code {code}'}",
            provider=service.name,
            sandbox_id=box.sandbox_id,
        )


def _pack(local: Path, remote: str, owner: tuple[int, int], folder: bool) -> IO[bytes]:  # noqa: FBT001
    def owned(info: tarfile.TarInfo) -> tarfile.TarInfo:
        info.uid, info.gid = owner
        info.uname = info.gname = ""
        return info

    target = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 - the caller closes it
    try:
        with tarfile.open(fileobj=target, mode="w") as tar:
            if folder:
                for name in sorted(os.listdir(local)):  # noqa: PTH208
                    tar.add(local / name, arcname=name, filter=owned)
            else:
                tar.add(local.resolve(), arcname=posixpath.basename(remote), filter=owned)
        target.seek(0)
    except BaseException:
        target.close()
        raise
    return target


def _unpack_folder(packed: IO[bytes], local: Path) -> None:
    local.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=packed) as tar:
        tar.extractall(local, filter="data")


def _unpack_file(packed: IO[bytes], local: Path, remote: str) -> None:
    with tarfile.open(fileobj=packed) as tar:
        for member in tar:
            file = tar.extractfile(member) if member.isreg() else None
            if file is None:
                continue
            target = local / posixpath.basename(remote) if local.is_dir() else local
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as out:
                while piece := file.read(1 << 20):
                    out.write(piece)
            target.chmod(member.mode & 0o777)
            return
    raise FileNotFoundError(2, "No such file in the sandbox", remote)
