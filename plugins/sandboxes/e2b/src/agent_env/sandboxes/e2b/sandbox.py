"""One sandbox of the service."""

from __future__ import annotations

import asyncio
import posixpath
import time
from typing import TYPE_CHECKING, Literal, TypeVar

from agent_env.errors import (
    SandboxAuthFailed,
    SandboxError,
    SandboxGone,
    SandboxNotFound,
    SandboxUnavailable,
    SandboxUnsupported,
)
from agent_env.plugin.sandbox import Endpoint, ExecResult, Sandbox
from agent_env.sandboxes.e2b import execs, files, readiness

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from pathlib import Path

    from agent_env.plugin.sandbox import Isolation
    from agent_env.sandboxes.e2b.labels import About
    from agent_env.sandboxes.e2b.provider import E2BProviderBase
    from agent_env.sandboxes.e2b.sdk import SdkSandbox

T = TypeVar("T")


class E2BSandbox(Sandbox):
    """A sandbox; `attach` makes one that another process created."""

    isolation: Isolation = "vm"

    def __init__(
        self,
        provider: E2BProviderBase,
        box: SdkSandbox,
        about: About,
        *,
        labels: Mapping[str, str],
        expires_at: float,
        leased_until: float,
        endpoint: Endpoint | None,
        ours: bool,
    ) -> None:
        self.id = box.sandbox_id
        self.labels = labels
        self.expires_at: float | None = expires_at
        self.leased_until = leased_until
        self.ours = ours
        self.closed = False
        self._provider = provider
        self._service = provider.service
        self._box = box
        self._about = about
        self._endpoint = endpoint
        self._owner: tuple[int, int] | None = None
        self._closing: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<E2BSandbox {self.id}>"

    async def _call(self, work: Callable[[SdkSandbox], Awaitable[T]]) -> T:
        """Do ``work``; once more with fresh tokens when the old ones are refused."""
        if self._closing is not None:
            raise SandboxGone(f"sandbox {self.id} has ended", provider=self._service.name, sandbox_id=self.id)
        try:
            return await work(self._box)
        except SandboxAuthFailed:
            await self._connect()
            return await work(self._box)
        except SandboxNotFound as error:
            raise self._gone(error) from error
        except SandboxError as error:
            # A connection that broke does not say why.
            lost = type(error) is SandboxError or isinstance(error, SandboxUnavailable)
            if lost and await self._provider.client.info(self.id) is None:
                raise self._gone(error) from error
            raise

    def _gone(self, error: SandboxError) -> SandboxGone:
        return SandboxGone(str(error), provider=self._service.name, sandbox_id=self.id)

    async def _connect(self) -> None:
        self._box = await self._provider.client.connect(self.id)
        if self._about.serves:
            self._endpoint = self._service.endpoint(self._box, self._about.port)

    def _path(self, path: str) -> str:
        """An absolute path; relative ones start at the template's work folder."""
        return posixpath.normpath(posixpath.join(self._about.workdir or "/", path))

    # -- commands -----------------------------------------------------------------------------------------------------

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
        place = self._path(cwd) if cwd else self._about.workdir
        return await self._call(
            lambda box: execs.run(
                box,
                self._service,
                self._provider.tasks,
                list(argv),
                cwd=place,
                env=dict(env or {}),
                stdin=stdin,
                timeout=timeout,
                max_output=max_output,
            )
        )

    # -- files --------------------------------------------------------------------------------------------------------

    async def read(self, path: str, *, max_bytes: int = 64 * 1024 * 1024) -> bytes:
        return await self._call(lambda box: files.read(box, self._service, self._path(path), max_bytes))

    async def write(self, path: str, data: bytes, *, mode: int | None = None) -> None:
        full = self._path(path)
        await self._call(lambda box: files.put(box, self._service, full, data))
        if mode is not None:
            await self._call(lambda box: files.chmod(box, self._service, full, mode))

    async def upload(self, local: Path, remote: str) -> None:
        owner = await self._owner_ids()
        await self._call(lambda box: files.upload(box, self._service, local, self._path(remote), owner))

    async def download(self, remote: str, local: Path) -> None:
        await self._call(lambda box: files.download(box, self._service, self._path(remote), local))

    async def _owner_ids(self) -> tuple[int, int]:
        if self._owner is None:
            self._owner = await self._call(lambda box: files.owner_ids(box, self._service))
        return self._owner

    # -- state --------------------------------------------------------------------------------------------------------

    async def endpoint(self) -> Endpoint:
        if self._endpoint is None:
            raise SandboxUnsupported(
                f"sandbox {self.id} was created without a server", provider=self._service.name, sandbox_id=self.id
            )
        return self._endpoint

    async def extend(self, ttl_s: float) -> None:
        if ttl_s > self._provider.options.max_ttl_s:
            raise SandboxUnsupported(
                f"sandbox {self.id}: it cannot live {ttl_s:g} s; the option {self._service.name}.max_ttl_s says "
                f"{self._provider.options.max_ttl_s:g} s",
                provider=self._service.name,
                sandbox_id=self.id,
            )
        now = time.time()
        await self._call(lambda _: self._provider.client.set_timeout(self.id, ttl_s))
        self.expires_at = self.leased_until = now + ttl_s
        self._provider.extended(self)

    async def status(self) -> Literal["starting", "running", "exited", "gone"]:
        if self.closed:
            return "gone"
        found = await self._provider.client.info(self.id)
        if found is None:
            return "gone"
        if found.status == "running" and self._about.serves and await self.exit_code() is not None:
            return "exited"
        return found.status

    async def exit_code(self) -> int | None:
        return (await self._server_state(1))[0]

    async def logs(self, tail: int = 4096) -> str:
        return (await self._server_state(tail))[1]

    async def _server_state(self, tail: int) -> tuple[int | None, str]:
        if self.closed or not self._about.serves:
            return None, ""
        try:
            return await self._call(lambda box: readiness.state(box, self._service, tail))
        except SandboxGone:
            return None, ""

    async def close(self) -> None:
        if self._closing is None or (self._closing.done() and _failed(self._closing)):
            self._closing = self._provider.end(self)
        # A caller that is cancelled stops waiting; the end itself goes on and the provider waits for it.
        await asyncio.shield(self._closing)


def _failed(task: asyncio.Task[None]) -> bool:
    return task.cancelled() or isinstance(task.exception(), SandboxError)
