"""`run_code` of the process provider: a child forked from a warm host of the env's Python."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from typing import TYPE_CHECKING, Any

from agent_env.errors import CodeError, SandboxTimeout, SandboxUnavailable
from agent_env.plugin.sandboxing.code import read_answer, request_json
from agent_env.sandboxes.process.keeper.ringlog import read_tail

if TYPE_CHECKING:
    from pathlib import Path

    from agent_env.plugin.sandbox import CodeRequest
    from agent_env.sandboxes.process.cell import Cell
    from agent_env.sandboxes.process.warm import Warm

_MOST_CODE = 5 * 1024 * 1024
_TAIL = 2000
_KILL_WAIT = 5.0
_END_WAIT = 10.0
_SLACK = 1024 * 1024


def read_code(folder: Path) -> bytes:
    """The ``.py`` files of a folder as a JSON object of their texts.

    Raises:
        CodeError: there is too much of it, or it cannot be read.
    """
    files: dict[str, str] = {}
    size = 0
    try:
        for path in sorted(folder.rglob("*.py")):
            if path.is_file():
                text = path.read_text(encoding="utf-8")
                size += len(text)
                files[path.relative_to(folder).as_posix()] = text
                if size > _MOST_CODE:
                    raise CodeError(f"{folder}: more than {_MOST_CODE >> 20} MiB of Python files")
    except (OSError, UnicodeDecodeError) as error:
        raise CodeError(f"cannot read the code in {folder}: {error}") from error
    return json.dumps(files).encode()


def _memory(name: str, data: bytes = b"") -> int:
    """A file in memory."""
    fd = os.memfd_create(name)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        os.lseek(fd, 0, os.SEEK_SET)
    except BaseException:
        os.close(fd)
        raise
    return fd


async def run_code(
    host: Warm,
    name: str,
    request: CodeRequest,
    *,
    env: dict[str, str],
    limits: dict[str, int],
    log: int,
    cell: Cell | None = None,
) -> Any:
    """Run ``request`` in a child of ``host``.

    Raises:
        CodeError: it raised, crashed or answered nonsense; SandboxTimeout: it ran too long.
        SandboxUnavailable: the host was lost.
    """
    files = await asyncio.to_thread(read_code, request.folder)
    runner = await asyncio.to_thread(request.runner.read_bytes)
    digest = hashlib.sha256(runner).hexdigest()[:16]
    identity = f"{host.id}-{name}"
    folder = host.folder / "kids" / name
    held = host.link.held(identity)
    fds: list[int] = []
    try:
        if digest not in host.known:
            fds.append(_memory("runner", runner))
            host.link.post({"op": "runner", "digest": digest}, fds)
            host.known.add(digest)
        given = [
            _memory("code", files),
            _memory("request", request_json(request, str(folder / "root" / "code"))),
            _memory("answer"),
        ]
        if cell is not None:
            given += cell.open()
        fds += given
        home = str(folder / "root" / "work")
        message = {
            "op": "code",
            "id": identity,
            "dir": str(folder),
            "digest": digest,
            "env": {**env, "HOME": home, "TMPDIR": str(folder / "root" / "tmp")},
            "limits": {**limits, "fsize": max(limits["fsize"], request.max_output + _SLACK)},
            "log": log,
        }
        host.link.post(message, given)
        await asyncio.wait([held.exited], timeout=request.timeout)
        if not held.exited.done():
            host.link.post({"op": "kill", "id": identity})
            await asyncio.wait([held.exited], timeout=_KILL_WAIT)
            raise SandboxTimeout(
                f"{request.file}: {request.function}() ran longer than {request.timeout:g} s and was killed",
                provider="process",
                retryable=False,
            )
        code = held.exited.result()
        if code is None:
            raise SandboxUnavailable(f"{request.file}: {held.error or 'not run to its end'}", provider="process")
        if code != 0:
            tail = await asyncio.to_thread(read_tail, str(folder / "log"), _TAIL)
            why = f" ({hint})" if cell is not None and (hint := cell.hint()) else ""
            raise CodeError(f"{request.file}: {request.function}() {_how(code)}{why}: {tail.strip() or '(no output)'}")
        return await _answer(given[2], request)
    finally:
        for fd in fds:
            os.close(fd)
        host.link.post({"op": "end", "id": identity})
        held_ended = asyncio.ensure_future(_ended(held.ended))
        await asyncio.shield(held_ended)


async def _ended(ended: asyncio.Future[None]) -> None:
    await asyncio.wait([ended], timeout=_END_WAIT)


def _how(code: int) -> str:
    if code > 128:
        import signal

        try:
            return f"was ended by {signal.Signals(code - 128).name}"
        except ValueError:
            pass
    return f"ended with exit code {code}"


async def _answer(fd: int, request: CodeRequest) -> Any:
    size = os.fstat(fd).st_size
    if size > request.max_output:
        raise CodeError(f"{request.file}: {request.function}() returned {size} bytes, more than {request.max_output}")
    raw = os.pread(fd, size, 0)
    if size > 1 << 20:
        return await asyncio.to_thread(read_answer, raw, request)
    return read_answer(raw, request)
