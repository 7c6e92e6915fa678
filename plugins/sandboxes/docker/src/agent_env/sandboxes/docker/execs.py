"""Running a command in a container: output limits, stdin, and a deadline past which everything of it is killed."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from typing import TYPE_CHECKING, Any

from agent_env.errors import SandboxError, SandboxGone, SandboxTimeout, SandboxUnavailable
from agent_env.plugin.sandbox import ExecResult
from agent_env.sandboxes.docker.failures import NAME, EngineError, to_error
from agent_env.sandboxes.docker.hijack import STDERR

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agent_env.sandboxes.docker.engine import Engine

MARK = "AGENTENV_EXEC_ID"
"""Environment variable of a command and all it starts, by which they are found to be killed."""

_POLL_FIRST = 0.25
_POLL_MOST = 2.0
_LEFT_OPEN_GRACE = 0.2
_KILL_TIMEOUT = 15.0

_KILL_PYTHON = f"""
import os, sys
mark = ("{MARK}=" + sys.argv[1]).encode()
for round in range(5):
    found = False
    for pid in os.listdir("/proc"):
        if pid.isdigit() and int(pid) != os.getpid():
            try:
                if mark in open("/proc/" + pid + "/environ", "rb").read().split(b"\\0"):
                    found = True
                    os.kill(int(pid), 9)
            except OSError:
                pass
    if not found:
        break
"""
_KILL_SHELL = f"""
for round in 1 2 3 4 5; do found=
for dir in /proc/[0-9]*; do
  if grep -qa "{MARK}=$0" "$dir/environ" 2>/dev/null; then kill -9 "${{dir#/proc/}}" && found=1; fi
done
[ -n "$found" ] || break; done
"""


class Collected:
    """Keeps output up to a limit and drops the rest, so that the command never blocks."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: tuple[bytearray, bytearray] = (bytearray(), bytearray())
        self.truncated = False
        self.ended = asyncio.Event()

    def data(self, stream: int, data: bytes) -> None:
        """A piece of output."""
        part = self._parts[1 if stream == STDERR else 0]
        room = self._limit - len(part)
        part += data[:room]
        self.truncated = self.truncated or len(data) > room

    def end(self) -> None:
        """Nothing more comes."""
        self.ended.set()

    def texts(self) -> tuple[str, str]:
        """Stdout and stderr."""
        out, err = self._parts
        return out.decode(errors="replace"), err.decode(errors="replace")


async def create(
    engine: Engine,
    container: str,
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    stdin: bool = False,
    output: bool = True,
) -> str:
    """A command that is not started yet; its id."""
    body: dict[str, Any] = {
        "Cmd": list(argv),
        "AttachStdin": stdin,
        "AttachStdout": output,
        "AttachStderr": output,
        "Env": [f"{name}={value}" for name, value in (env or {}).items()],
    }
    if cwd is not None:
        body["WorkingDir"] = cwd
    answer = await engine.call("POST", f"containers/{container}/exec", body=body)
    return str(answer["Id"])


async def detached(engine: Engine, container: str, argv: Sequence[str]) -> str:
    """Start a command and leave it running; its id."""
    exec_id = await create(engine, container, argv, output=False)
    await engine.call("POST", f"exec/{exec_id}/start", body={"Detach": True, "Tty": False})
    return exec_id


async def state(engine: Engine, exec_id: str) -> tuple[bool, int | None]:
    """Whether a command runs, and its exit code."""
    found = await engine.get(f"exec/{exec_id}/json")
    return bool(found.get("Running")), found.get("ExitCode")


async def run(
    engine: Engine,
    container: str,
    argv: Sequence[str],
    *,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    timeout: float,
    max_output: int,
    kills: Kills,
) -> ExecResult:
    """Run a command to its end.

    Raises:
        SandboxTimeout: it was killed past its deadline; SandboxGone: the container does not run.
    """
    mark = secrets.token_hex(8)
    output = Collected(max_output)
    started = finished = False
    try:
        async with asyncio.timeout(timeout):
            try:
                exec_id = await create(
                    engine, container, argv, env={**(env or {}), MARK: mark}, cwd=cwd, stdin=stdin is not None
                )
                started = True
                connection = await engine.hijack(f"exec/{exec_id}/start", {"Detach": False, "Tty": False}, output)
                try:
                    if stdin is not None:
                        connection.write(stdin)
                        connection.write_eof()
                    await _ended(engine, exec_id, output)
                finally:
                    connection.close()
                running, code = await state(engine, exec_id)
                while running or code is None:
                    await asyncio.sleep(0.05)
                    running, code = await state(engine, exec_id)
                finished = True
            except EngineError as error:
                raise await _failed(engine, container, error, argv) from error
    except TimeoutError as error:
        raise SandboxTimeout(
            f"command {argv[0]!r} ran longer than {timeout:g} s and was killed",
            provider=NAME,
            sandbox_id=container,
            retryable=False,
        ) from error
    finally:
        if started and not finished:
            # Shielded: neither a second cancellation nor the end of the caller leaves the command running.
            await asyncio.shield(kills.start(container, mark))
    out, err = output.texts()
    return ExecResult(exit_code=code, stdout=out, stderr=err, truncated=output.truncated)


async def _ended(engine: Engine, exec_id: str, output: Collected) -> None:
    """Wait for the command's end: also when something that it left behind holds its output open."""
    delay = _POLL_FIRST
    while not output.ended.is_set():
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay):
                await output.ended.wait()
                return
        delay = min(delay * 1.5, _POLL_MOST)
        running, _ = await state(engine, exec_id)
        if not running:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LEFT_OPEN_GRACE):
                    await output.ended.wait()
            return


async def short(engine: Engine, container: str, argv: Sequence[str]) -> str | None:
    """What a command of ours wrote, as far as it fits; `None` when the image cannot run it or it failed."""
    output = Collected(65536)
    exec_id = await create(engine, container, argv)
    try:
        connection = await engine.hijack(f"exec/{exec_id}/start", {"Detach": False, "Tty": False}, output)
    except EngineError as error:
        if error.status in {400, 500}:
            return None
        raise
    try:
        await _ended(engine, exec_id, output)
    finally:
        connection.close()
    _, code = await state(engine, exec_id)
    return output.texts()[0] if code == 0 else None


async def _failed(engine: Engine, container: str, error: EngineError, argv: Sequence[str]) -> SandboxError:
    """Why a command was not run to its end."""
    if error.status == 0:
        return to_error(error, f"command {argv[0]!r}", container)
    try:
        running = (await engine.get(f"containers/{container}/json"))["State"]["Running"]
    except EngineError as again:
        if again.status != 404:
            return to_error(again, f"command {argv[0]!r}", container)
        running = False
    if running:
        return to_error(error, f"command {argv[0]!r}", container)
    return SandboxGone(
        f"command {argv[0]!r} was not run to its end: the container has ended", provider=NAME, sandbox_id=container
    )


class Kills:
    """Kills commands in the background; its owner waits for them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, container: str, mark: str) -> asyncio.Task[None]:
        """Kill everything that carries the mark."""
        task = asyncio.create_task(self._kill(container, mark), name="docker kill")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """Wait for all."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=_KILL_TIMEOUT)

    async def _kill(self, container: str, mark: str) -> None:
        try:
            async with asyncio.timeout(_KILL_TIMEOUT):
                for argv in (["python3", "-I", "-S", "-c", _KILL_PYTHON, mark], ["sh", "-c", _KILL_SHELL, mark]):
                    if await short(self._engine, container, argv) is not None:
                        return
                # Nothing in the image can do it: the container goes, rather than a command that runs on.
                await self._engine.call("POST", f"containers/{container}/kill")
        except EngineError as error:
            if error.status not in {404, 409}:
                raise SandboxUnavailable(
                    f"a command could not be killed: {error}", provider=NAME, sandbox_id=container
                ) from error
        except TimeoutError:
            return
