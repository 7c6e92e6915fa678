"""Commands in a sandbox: their output is held to a limit while it comes, and none outlives its deadline or caller."""

from __future__ import annotations

import asyncio
import math
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from agent_env.errors import SandboxTimeout
from agent_env.plugin.sandbox import ExecResult
from agent_env.sandboxes.modal.failures import NAME, to_error
from agent_env.sandboxes.modal.sdk import sdk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from agent_env.plugin.sandboxing.tasks import Tasks
    from agent_env.sandboxes.modal.sdk import SdkProcess, SdkSandbox, SdkStdin, SdkStream

_MARK = "AGENTENV_EXEC"
# Modal ends a command at its timeout, but has no call to end one sooner, nor what it left in the background.
_KILL = (
    "for round in 1 2 3 4 5; do found=; for d in /proc/[0-9]*; do "
    f'if grep -q "{_MARK}=$1" "$d/environ" 2>/dev/null; then kill -9 "${{d#/proc/}}" && found=1; fi; done; '
    '[ -n "$found" ] || exit 0; done'
)
_KILL_TIMEOUT = 30
_START_GRACE = 15.0
_KILL_WAIT = 5.0
_OUTPUT_GRACE = 1.0
_CHUNK = 1 << 20
_NO_CODE = -1


class _Kept:
    """Output up to a limit."""

    def __init__(self, limit: int) -> None:
        self.data = bytearray()
        self.truncated = False
        self._limit = limit

    def __call__(self, piece: bytes) -> None:
        room = self._limit - len(self.data)
        self.data += piece[:room]
        self.truncated = self.truncated or len(piece) > room

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", errors="replace")


async def run(  # noqa: D417 - the others are those of the contract's exec
    sandbox: SdkSandbox,
    argv: Sequence[str],
    *,
    tasks: Tasks,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    timeout: float,
    max_output: int,
    out: Callable[[bytes], object] | None = None,
) -> ExecResult:
    """Run a command to its end.

    Args:
        tasks: owner of the work that ends a command whose caller does not wait any more.
        out: takes stdout piece by piece, in place of the result.

    Raises:
        SandboxTimeout: it ran longer, and was killed. Other SandboxErrors: the sandbox is gone, the service does not
            answer.
    """
    what = f"sandbox {sandbox.object_id}: {argv[0] if argv else 'no command'}"
    kept, errors = _Kept(max_output), _Kept(max_output)
    mark = secrets.token_hex(12)
    work = sandbox.exec.aio(
        *argv, timeout=max(1, math.ceil(timeout)), workdir=cwd, env={**(env or {}), _MARK: mark}, text=False
    )
    starting: asyncio.Task[SdkProcess] = tasks.start(work, f"modal exec {mark}")
    try:
        async with asyncio.timeout(timeout):
            code = await _follow(await asyncio.shield(starting), out or kept, errors, stdin)
    except TimeoutError as error:
        await asyncio.wait([_kill(sandbox, starting, mark, tasks)], timeout=_KILL_WAIT)
        raise _late(what, timeout, sandbox.object_id) from error
    except asyncio.CancelledError:
        _kill(sandbox, starting, mark, tasks)
        raise
    except Exception as error:
        raise to_error(error, what, sandbox.object_id) from error
    if code == _NO_CODE:  # the SDK's word for a deadline
        await asyncio.wait([_kill(sandbox, starting, mark, tasks)], timeout=_KILL_WAIT)
        raise _late(what, timeout, sandbox.object_id)
    return ExecResult(code, kept.text, errors.text, truncated=kept.truncated or errors.truncated)


def _late(what: str, timeout: float, sandbox_id: str) -> SandboxTimeout:
    return SandboxTimeout(f"{what} took longer than {timeout:g} s", provider=NAME, sandbox_id=sandbox_id)


async def _follow(
    process: SdkProcess, out: Callable[[bytes], object], errors: Callable[[bytes], object], stdin: bytes | None
) -> int:
    """Its exit code. What it left in the background may hold its output open: that is not waited for."""
    readers = [asyncio.ensure_future(_read(process.stdout, out)), asyncio.ensure_future(_read(process.stderr, errors))]
    others = [*readers, asyncio.ensure_future(_feed(process.stdin, stdin))]
    try:
        code = int(await process.wait.aio())
        await asyncio.wait(readers, timeout=_OUTPUT_GRACE)
        for reader in readers:
            if reader.done():
                reader.result()
    finally:
        for task in others:
            task.cancel()
        await asyncio.wait(others)
    return code


async def _read(stream: SdkStream, sink: Callable[[bytes], object]) -> None:
    async for piece in stream:
        sink(piece)


async def _feed(stdin: SdkStdin, data: bytes | None) -> None:
    """Send the input and its end; a command may end without having read it."""
    view = memoryview(data or b"")
    with suppress(sdk().errors.Error, ValueError, OSError):
        for start in range(0, len(view), _CHUNK):
            stdin.write(bytes(view[start : start + _CHUNK]))
            await stdin.drain.aio()
        stdin.write_eof()
        await stdin.drain.aio()


def _kill(sandbox: SdkSandbox, starting: asyncio.Task[SdkProcess], mark: str, tasks: Tasks) -> asyncio.Task[None]:
    """End a command and all that it started."""

    async def kill() -> None:
        await asyncio.wait([starting], timeout=_START_GRACE)
        if starting.done() and not starting.cancelled() and starting.exception() is not None:
            return
        process: Any = await sandbox.exec.aio("/bin/sh", "-c", _KILL, "sh", mark, timeout=_KILL_TIMEOUT)
        await process.wait.aio()

    return tasks.start(kill(), f"modal kill {mark}")
