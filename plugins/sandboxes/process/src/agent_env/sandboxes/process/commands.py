"""Running a command in a sandbox: output limits, deadline, everything killed past it."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING, Any

from agent_env.errors import SandboxGone, SandboxTimeout
from agent_env.plugin.sandbox import ExecResult

if TYPE_CHECKING:
    from agent_env.sandboxes.process.cell import Cell
    from agent_env.sandboxes.process.link import Link

_CHUNK = 65536
_KILL_WAIT = 5.0
_KILLED = 137


class _Output:
    """Reads a pipe into memory up to a limit and drops the rest, so that the writer never blocks."""

    def __init__(self, limit: int) -> None:
        self.fd, self.write_end = os.pipe()
        os.set_blocking(self.fd, False)
        self.data = bytearray()
        self.truncated = False
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self.fd, self.read)

    def read(self, rounds: int = 4) -> None:
        for _ in range(rounds):
            if self.fd < 0:
                return
            try:
                data = os.read(self.fd, _CHUNK)
            except BlockingIOError:
                return
            if not data:
                self.close()
                return
            room = self._limit - len(self.data)
            self.data += data[:room]
            self.truncated = self.truncated or len(data) > room

    def close(self) -> None:
        if self.fd >= 0:
            self._loop.remove_reader(self.fd)
            os.close(self.fd)
            self.fd = -1

    def close_write_end(self) -> None:
        if self.write_end >= 0:
            os.close(self.write_end)
            self.write_end = -1


def _stdin(data: bytes | None) -> int:
    """A descriptor from which ``data`` can be read: a file in memory, so that nobody has to feed a pipe."""
    if data is None:
        return os.open(os.devnull, os.O_RDONLY)
    fd = os.memfd_create("stdin")
    with open(os.dup(fd), "wb") as file:  # noqa: PTH123, ASYNC230
        file.write(data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


async def run(
    link: Link,
    identity: str,
    message: dict[str, Any],
    *,
    stdin: bytes | None,
    timeout: float,
    max_output: int,
    cell: Cell | None = None,
) -> ExecResult:
    """Post ``message`` (an ``exec`` request) and wait for the command's end.

    Args:
        link: to the spawner.
        identity: of the command.
        message: the request.
        stdin: what it reads.
        timeout: seconds.
        max_output: bytes of each stream.
        cell: holds the sandbox to its limits; what it says of the command's end goes to its error output.
    """
    kills = cell.kills() if cell is not None else 0
    out, err = _Output(max_output), _Output(max_output)
    held = link.held(identity)
    given = _stdin(stdin)
    argv = message["argv"]
    try:
        try:
            link.post({**message, "op": "exec", "id": identity}, [given, out.write_end, err.write_end])
        finally:
            os.close(given)
            out.close_write_end()
            err.close_write_end()
        await asyncio.wait([held.exited], timeout=timeout)
        if not held.exited.done():
            link.post({"op": "kill", "id": identity})
            await asyncio.wait([held.exited], timeout=_KILL_WAIT)
            raise SandboxTimeout(
                f"command {argv[0]!r} ran longer than {timeout:g} s and was killed", provider="process", retryable=False
            )
        code = held.exited.result()
        if code is None:
            raise SandboxGone(f"command {argv[0]!r} was not run to its end: {held.error}", provider="process")
        # What the command itself wrote is in the pipes now; a child it left behind may hold them open for ever.
        for output in (out, err):
            output.read()
        said = err.data.decode(errors="replace")
        if code == _KILLED and cell is not None and cell.kills() > kills:
            said += f"\n{cell.words()}\n" if said else f"{cell.words()}\n"
        return ExecResult(
            exit_code=code,
            stdout=out.data.decode(errors="replace"),
            stderr=said,
            truncated=out.truncated or err.truncated,
        )
    finally:
        if not held.exited.done():
            with contextlib.suppress(ValueError):
                link.post({"op": "kill", "id": identity})
        link.forget(identity)
        out.close()
        err.close()
