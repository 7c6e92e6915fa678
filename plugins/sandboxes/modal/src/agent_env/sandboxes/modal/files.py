"""Files of a sandbox: single ones through Modal's file interface, folders as one tar file where the image has tar."""

from __future__ import annotations

import asyncio
import errno
import os
import posixpath
import stat
import tarfile
import tempfile
from typing import IO, TYPE_CHECKING

from agent_env.errors import SandboxError, SandboxUnsupported
from agent_env.sandboxes.modal import execs
from agent_env.sandboxes.modal.calls import within
from agent_env.sandboxes.modal.failures import NAME, to_error
from agent_env.sandboxes.modal.sdk import sdk

if TYPE_CHECKING:
    from pathlib import Path

    from agent_env.plugin.sandboxing.tasks import Tasks
    from agent_env.sandboxes.modal.sdk import SdkSandbox

_TIMEOUT = 600.0
_IN_MEMORY = 16 << 20
_ERRORS = 64 * 1024


def _mapped(error: Exception, path: str, sandbox_id: str) -> Exception:
    """Python's own errors for what happens to files, the contract's for the rest."""
    it = sdk().errors
    if isinstance(error, it.SandboxFilesystemNotFoundError):
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    if isinstance(error, it.SandboxFilesystemIsADirectoryError):
        return IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if isinstance(error, it.SandboxFilesystemNotADirectoryError):
        return NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
    if isinstance(error, it.SandboxFilesystemPermissionError):
        return PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    if isinstance(error, it.SandboxFilesystemFileTooLargeError):
        return ValueError(f"{path} is larger than Modal reads")
    return to_error(error, f"sandbox {sandbox_id}: {path}", sandbox_id)


async def is_folder(sandbox: SdkSandbox, path: str) -> tuple[bool, int]:
    """Whether it is a folder, and its size.

    Raises:
        FileNotFoundError: there is nothing.
    """
    try:
        found = await within(sandbox.filesystem.stat.aio(path))
    except Exception as error:
        raise _mapped(error, path, sandbox.object_id) from error
    return found.type.name.lower() in {"dir", "directory"}, int(found.size)


async def read(sandbox: SdkSandbox, path: str, max_bytes: int) -> bytes:
    """Content of a file; see the contract for its errors."""
    folder, size = await is_folder(sandbox, path)
    if folder:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if size > max_bytes:
        raise ValueError(f"{path} has {size} bytes, more than the {max_bytes} that may be read")
    try:
        data: bytes = await within(sandbox.filesystem.read_bytes.aio(path), _TIMEOUT)
    except Exception as error:
        raise _mapped(error, path, sandbox.object_id) from error
    if len(data) > max_bytes:
        raise ValueError(f"{path} has {len(data)} bytes, more than the {max_bytes} that may be read")
    return data


async def write(sandbox: SdkSandbox, path: str, data: bytes, mode: int | None, tasks: Tasks) -> None:
    """Write a file, its folders included."""
    try:
        await within(sandbox.filesystem.write_bytes.aio(data, path), _TIMEOUT)
    except Exception as error:
        raise _mapped(error, path, sandbox.object_id) from error
    if mode is not None:
        await _command(sandbox, tasks, ["chmod", f"{mode:o}", path])


async def upload(sandbox: SdkSandbox, local: Path, remote: str, tasks: Tasks) -> None:
    """Copy a file or a folder's content there."""
    if not await asyncio.to_thread(local.is_dir):
        mode = (await asyncio.to_thread(local.stat)).st_mode
        try:
            await within(sandbox.filesystem.copy_from_local.aio(str(local), remote), _TIMEOUT)
        except TimeoutError as error:
            raise to_error(error, f"sandbox {sandbox.object_id}: {remote}", sandbox.object_id) from error
        except OSError:  # of the local file
            raise
        except Exception as error:
            raise _mapped(error, remote, sandbox.object_id) from error
        if mode & 0o111:
            await _command(sandbox, tasks, ["chmod", f"{stat.S_IMODE(mode):o}", remote])
        return
    packed = await asyncio.to_thread(_pack, local)
    with packed:
        data = await asyncio.to_thread(packed.read)
    try:
        await within(sandbox.filesystem.make_directory.aio(remote), _TIMEOUT)
    except Exception as error:
        raise _mapped(error, remote, sandbox.object_id) from error
    await _command(sandbox, tasks, ["tar", "-xf", "-", "-C", remote], stdin=data)


async def download(sandbox: SdkSandbox, remote: str, local: Path, tasks: Tasks) -> None:
    """Copy a file or folder from there."""
    folder, _ = await is_folder(sandbox, remote)
    if not folder:
        if await asyncio.to_thread(local.is_dir):
            local = local / posixpath.basename(remote)
        try:
            await within(sandbox.filesystem.copy_to_local.aio(remote, str(local)), _TIMEOUT)
        except TimeoutError as error:
            raise to_error(error, f"sandbox {sandbox.object_id}: {remote}", sandbox.object_id) from error
        except OSError:  # of the local file
            raise
        except Exception as error:
            raise _mapped(error, remote, sandbox.object_id) from error
        return
    with tempfile.SpooledTemporaryFile(_IN_MEMORY) as packed:
        await _command(sandbox, tasks, ["tar", "-cf", "-", "-C", remote, "."], out=packed)
        packed.seek(0)
        await asyncio.to_thread(_unpack, packed, local)


async def _command(
    sandbox: SdkSandbox, tasks: Tasks, argv: list[str], *, stdin: bytes | None = None, out: IO[bytes] | None = None
) -> None:
    done = await execs.run(
        sandbox,
        argv,
        tasks=tasks,
        cwd="/",
        stdin=stdin,
        timeout=_TIMEOUT,
        max_output=_ERRORS,
        out=out.write if out is not None else None,
    )
    said = f"{argv[0]} in sandbox {sandbox.object_id} failed: {done.stderr.strip()[-500:]}"
    if done.exit_code in {126, 127}:
        raise SandboxUnsupported(
            f"{said} (Modal sandboxes need {argv[0]} in the image for this)",
            provider=NAME,
            sandbox_id=sandbox.object_id,
        )
    if done.exit_code != 0:
        raise SandboxError(said, provider=NAME, sandbox_id=sandbox.object_id)


def _pack(folder: Path) -> IO[bytes]:
    target = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 - the caller closes it
    with tarfile.open(fileobj=target, mode="w") as tar:
        tar.add(folder, ".", filter=_plain)
    target.seek(0)
    return target


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Files, folders and links, owned by root as everything else in a sandbox."""
    if not (info.isreg() or info.isdir() or info.issym()):
        return None
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info


def _unpack(packed: IO[bytes], local: Path) -> None:
    """Unpack into a folder what a sandbox packed: nothing lands outside, links out of it are left out."""
    local.mkdir(parents=True, exist_ok=True)
    root = os.path.realpath(local)
    with tarfile.open(fileobj=packed) as tar:
        for info in tar:
            place = os.path.normpath(os.path.join(root, info.name))  # noqa: PTH118
            parent = os.path.realpath(os.path.dirname(place))  # noqa: PTH120
            if place == root or not _inside(root, place) or not _inside(root, parent):
                continue
            if info.issym():
                if _inside(root, os.path.normpath(os.path.join(parent, info.linkname))):  # noqa: PTH118
                    _cleared(place)
                    os.symlink(info.linkname, place)  # noqa: PTH211
            elif info.isdir():
                os.makedirs(place, exist_ok=True)  # noqa: PTH103
            elif info.isreg() and (source := tar.extractfile(info)) is not None:
                os.makedirs(parent, exist_ok=True)  # noqa: PTH103
                _cleared(place)
                with open(place, "wb") as file:  # noqa: PTH123
                    while piece := source.read(1 << 20):
                        file.write(piece)
                os.chmod(place, info.mode & 0o777)  # noqa: PTH101


def _inside(root: str, path: str) -> bool:
    return path == root or path.startswith(root + os.sep)


def _cleared(place: str) -> None:
    if os.path.islink(place) or os.path.isfile(place):  # noqa: PTH113, PTH114
        os.unlink(place)  # noqa: PTH108
