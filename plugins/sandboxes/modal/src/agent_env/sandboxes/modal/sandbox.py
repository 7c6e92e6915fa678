"""One sandbox."""

from __future__ import annotations

import asyncio
import posixpath
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

from agent_env.errors import SandboxError, SandboxGone, SandboxNotFound, SandboxUnsupported
from agent_env.plugin.sandbox import Endpoint, ExecResult, Sandbox
from agent_env.sandboxes.modal import execs, files
from agent_env.sandboxes.modal.calls import within
from agent_env.sandboxes.modal.ending import end
from agent_env.sandboxes.modal.failures import NAME, to_error
from agent_env.sandboxes.modal.reaching import Way

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from agent_env.plugin.sandbox import Isolation
    from agent_env.sandboxes.modal.provider import ModalProvider
    from agent_env.sandboxes.modal.sdk import SdkSandbox
    from agent_env.sandboxes.modal.tags import Found

_LOG_ENTRIES = 400
_LOG_DEADLINE = 15.0
_LOG_WAITS = (0.2, 0.5, 1.0)


class ModalSandbox(Sandbox):
    """A sandbox of Modal; `attach` makes one that another process created."""

    def __init__(
        self, provider: ModalProvider, sdk_sandbox: SdkSandbox, found: Found, *, isolation: Isolation, ours: bool
    ) -> None:
        self.id = found.id
        self.labels: Mapping[str, str] = found.labels
        self.isolation: Isolation = isolation
        self.expires_at: float | None = found.expires_at
        self.create_id = found.create_id
        self.ours = ours
        self._provider = provider
        self._sdk = sdk_sandbox
        self._workdir = found.workdir or "/"
        self._way = Way(sdk_sandbox, found.port, provider.options) if found.port is not None else None
        self._closing: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<ModalSandbox {self.id}>"

    @property
    def ended(self) -> bool:
        """Whether it was closed here."""
        return self._closing is not None

    # -- commands and files -------------------------------------------------------------------------------------------

    async def exec(
        self,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes | None = None,
        timeout: float = 60.0,
        max_output: int = 1024 * 1024,
    ) -> ExecResult:
        self._check_open()
        try:
            return await execs.run(
                self._sdk,
                argv,
                tasks=self._provider.tasks,
                cwd=None if cwd is None else self._path(cwd),
                env=env,
                stdin=stdin,
                timeout=timeout,
                max_output=max_output,
            )
        except (SandboxGone, SandboxNotFound) as error:
            raise self._gone(str(error)) from error

    async def read(self, path: str, *, max_bytes: int = 64 * 1024 * 1024) -> bytes:
        self._check_open()
        try:
            return await files.read(self._sdk, self._path(path), max_bytes)
        except SandboxNotFound as error:
            raise self._gone(str(error)) from error

    async def write(self, path: str, data: bytes, *, mode: int | None = None) -> None:
        self._check_open()
        try:
            await files.write(self._sdk, self._path(path), data, mode, self._provider.tasks)
        except SandboxNotFound as error:
            raise self._gone(str(error)) from error

    async def upload(self, local: Path, remote: str) -> None:
        self._check_open()
        try:
            await files.upload(self._sdk, local, self._path(remote), self._provider.tasks)
        except SandboxNotFound as error:
            raise self._gone(str(error)) from error

    async def download(self, remote: str, local: Path) -> None:
        self._check_open()
        try:
            await files.download(self._sdk, self._path(remote), local, self._provider.tasks)
        except SandboxNotFound as error:
            raise self._gone(str(error)) from error

    def _path(self, path: str) -> str:
        """An absolute path; relative ones start at the image's work folder as far as it is known."""
        return posixpath.normpath(posixpath.join(self._workdir, path))

    def _check_open(self) -> None:
        if self._closing is not None:
            raise self._gone(f"sandbox {self.id} has ended")

    def _gone(self, message: str) -> SandboxGone:
        return SandboxGone(message, provider=NAME, sandbox_id=self.id)

    # -- state --------------------------------------------------------------------------------------------------------

    async def endpoint(self) -> Endpoint:
        self._check_open()
        if self._way is None:
            raise SandboxUnsupported(
                f"sandbox {self.id} was created without a server", provider=NAME, sandbox_id=self.id
            )
        return await self._way.endpoint()

    async def extend(self, ttl_s: float) -> None:
        raise SandboxUnsupported(
            f"sandbox {self.id}: the life of a Modal sandbox cannot be extended by {ttl_s:g} s; ask for all of it "
            "when it is created",
            provider=NAME,
            sandbox_id=self.id,
        )

    async def status(self) -> Literal["starting", "running", "exited", "gone"]:
        if self._closing is not None:
            return "gone"
        try:
            return "running" if await self._poll() is None else "exited"
        except SandboxNotFound:
            return "gone"

    async def exit_code(self) -> int | None:
        if self._closing is not None:
            return None
        with suppress(SandboxNotFound):
            return await self._poll()
        return None

    async def _poll(self) -> int | None:
        try:
            code: int | None = await within(self._sdk.poll.aio())
        except Exception as error:
            raise to_error(error, f"sandbox {self.id}: status", self.id) from error
        return code

    async def logs(self, tail: int = 4096) -> str:
        if self._closing is not None or tail <= 0:
            return ""
        try:
            async with asyncio.timeout(_LOG_DEADLINE):
                pieces = [str(entry.message) async for entry in self._sdk.logs.tail.aio(_LOG_ENTRIES)]
        except Exception as error:
            raise to_error(error, f"sandbox {self.id}: logs", self.id) from error
        data = "".join(pieces).encode()
        return data[-tail:].decode("utf-8", errors="ignore")

    async def last_words(self, tail: int) -> str:
        """What it wrote last, for an error's message: Modal's log comes a little later than what it is about."""
        for wait in (0.0, *_LOG_WAITS):
            await asyncio.sleep(wait)
            with suppress(SandboxError):
                if text := await self.logs(tail):
                    return text
        return ""

    async def beat(self) -> None:
        """A sign of life, so that Modal does not take it for idle."""
        await self.exec(["true"], timeout=30.0)

    async def close(self) -> None:
        if self._closing is None or (self._closing.done() and _failed(self._closing)):
            self._closing = self._provider.end(self)
        # A caller that is cancelled stops waiting; the end itself goes on and the provider waits for it.
        await asyncio.shield(self._closing)

    async def terminate(self) -> None:
        """End it at Modal; for the provider, everybody else closes it."""
        await end(self._sdk)

    async def detach(self) -> None:
        """Let go of the connection to it; it lives on."""
        with suppress(Exception):
            await within(self._sdk.detach.aio())


def _failed(task: asyncio.Task[None]) -> bool:
    return task.cancelled() or isinstance(task.exception(), SandboxError)
