"""Running a command in a sandbox: output limits, deadline, everything killed past it."""

from __future__ import annotations

import asyncio
import inspect
import re
import secrets
from typing import TYPE_CHECKING, Any

from agent_env.errors import SandboxError, SandboxTimeout
from agent_env.plugin.sandbox import ExecResult
from agent_env.plugin.sandboxing.tasks import looked_at
from agent_env.sandboxes.e2b import scripts
from agent_env.sandboxes.e2b.failures import heedful, to_error
from agent_env.sandboxes.e2b.sdk import sdk

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agent_env.plugin.sandboxing.tasks import Tasks
    from agent_env.sandboxes.e2b.sdk import SdkSandbox
    from agent_env.sandboxes.e2b.service import Service

_KILL_TIMEOUT = 20.0
_START_TIMEOUT = 30.0
_GRACE = 5.0
_NO_WAIT_FOR = 0
"""Given a time for the start of a command, the SDK forgets the error of one that is cancelled, and asyncio logs it."""


class Output:
    """One output of a command, up to a limit; what is behind its end mark is not the command's."""

    def __init__(self, limit: int, nonce: str) -> None:
        self.data = bytearray()
        self.truncated = False
        self.ended = asyncio.Event()
        self.code: int | None = None
        self._limit = limit
        self._mark = re.compile(rf"{scripts.END}{nonce}(?::(\d+))?{scripts.END}")
        self._held = ""
        self._hold = len(nonce) + 8

    def take(self, text: str) -> None:
        """The next piece."""
        if self.ended.is_set():
            return
        text = self._held + text
        found = self._mark.search(text)
        if found is not None:
            self._keep(text[: found.start()])
            self._held = ""
            self.code = int(found[1]) if found[1] else None
            self.ended.set()
            return
        # A mark may be cut in two by the service.
        cut = text.rfind(scripts.END, max(0, len(text) - self._hold))
        self._held = text[cut:] if cut >= 0 else ""
        self._keep(text[:cut] if cut >= 0 else text)

    def finish(self) -> None:
        """There is no more."""
        self._keep(self._held)
        self._held = ""

    def _keep(self, text: str) -> None:
        data = text.encode()
        room = self._limit - len(self.data)
        self.data += data[:room]
        self.truncated = self.truncated or len(data) > room

    @property
    def text(self) -> str:
        """As text, decoded with replacement."""
        return self.data.decode(errors="replace")


async def run(
    box: SdkSandbox,
    service: Service,
    tasks: Tasks,
    argv: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    stdin: bytes | None,
    timeout: float,
    max_output: int,
) -> ExecResult:
    """Run a command to its end.

    Raises:
        SandboxTimeout: it ran longer than ``timeout`` and was killed; SandboxError: the sandbox failed.
    """
    nonce = secrets.token_hex(8)
    doing = f"sandbox {box.sandbox_id}: command {argv[0]!r}"
    out, err = Output(max_output, nonce), Output(max_output, nonce)
    handle: Any = None
    ended = False
    loop = asyncio.get_running_loop()
    try:
        file = None
        if stdin is not None:
            file = f"/tmp/agentenv-stdin-{nonce}"
            await box.files.write(file, stdin)
        script = scripts.command(argv, cwd=cwd, env=env, nonce=nonce, stdin=file)
        deadline = loop.time() + timeout
        starting = box.commands.run(
            script,
            background=True,
            on_stdout=out.take,
            on_stderr=err.take,
            # The service's own deadline comes after ours: it would cut the connection and leave the command running.
            timeout=timeout + _GRACE + _KILL_TIMEOUT,
            request_timeout=_NO_WAIT_FOR,
            **_streaming(box),
        )
        async with asyncio.timeout(min(timeout + _GRACE, _START_TIMEOUT)):
            handle = await heedful(starting)
        ended = await _wait(handle, out, err, deadline - loop.time())
        if not ended:
            raise SandboxTimeout(
                f"{doing} ran longer than {timeout:g} s and was killed",
                provider=service.name,
                sandbox_id=box.sandbox_id,
                retryable=False,
            )
    except SandboxError:
        raise
    except Exception as error:
        raise to_error(error, doing, service, box.sandbox_id) from error
    finally:
        if not ended:
            # Also when the caller was cancelled, or the answer to the start was lost.
            killing = tasks.start(_kill(box, nonce), "e2b kill command")
            if handle is not None:
                tasks.start(handle.disconnect(), "e2b disconnect")
            if asyncio.current_task() is None or not _cancelled():
                await asyncio.wait([killing], timeout=_KILL_TIMEOUT)
    code = out.code if out.code is not None else _exit_code(handle)
    out.finish()
    err.finish()
    return ExecResult(
        exit_code=_signal(code),
        stdout=out.text,
        stderr=err.text,
        truncated=out.truncated or err.truncated,
    )


def _streaming(box: SdkSandbox) -> dict[str, Any]:
    """Options that keep the SDK from collecting what we collect; SDKs before 2.50 have none."""
    knows = "retain_output" in inspect.signature(box.commands.run).parameters
    return {"retain_output": False} if knows else {}


def _exit_code(handle: Any) -> int | None:
    code = handle.exit_code
    return code if isinstance(code, int) else None


def _cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _signal(code: int | None) -> int:
    if code is None or code == -1:
        return 137
    return 128 - code if code < 0 else code


async def _wait(handle: Any, out: Output, err: Output, timeout: float) -> bool:
    """Wait for the command's end; False when it did not come in time."""

    async def marks() -> None:
        await out.ended.wait()
        await err.ended.wait()

    seen = asyncio.ensure_future(marks())
    whole = looked_at(asyncio.ensure_future(handle.wait()))
    try:
        done, _ = await asyncio.wait([seen, whole], timeout=max(timeout, 0.0), return_when=asyncio.FIRST_COMPLETED)
        if whole in done:
            error = whole.exception()
            if error is not None and not isinstance(error, sdk().e2b.CommandExitException) and not seen.done():
                raise error
            return True
        if seen in done:
            # A child may hold the outputs open for ever: their rest is not wanted.
            await asyncio.wait([whole], timeout=0.05)
            if not whole.done():
                whole.cancel()
                await handle.disconnect()
            return True
        return False
    finally:
        for task in (seen, whole):
            task.cancel()
        await asyncio.wait([seen, whole])


async def _kill(box: SdkSandbox, nonce: str) -> None:
    await box.commands.run(scripts.kill(nonce), user="root", timeout=_KILL_TIMEOUT, request_timeout=_NO_WAIT_FOR)


async def shell(
    box: SdkSandbox,
    service: Service,
    script: str,
    *,
    doing: str,
    user: str | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float = 60.0,
) -> tuple[int, str, str]:
    """Run a short script of ours; its exit code and outputs."""
    try:
        running = box.commands.run(
            script, user=user, envs=dict(env or {}), timeout=timeout, request_timeout=_NO_WAIT_FOR
        )
        done = await heedful(running)
    except Exception as error:
        if isinstance(error, sdk().e2b.CommandExitException):
            exited: Any = error
            return int(exited.exit_code), str(exited.stdout), str(exited.stderr)
        raise to_error(error, doing, service, box.sandbox_id) from error
    return 0, str(done.stdout), str(done.stderr)
