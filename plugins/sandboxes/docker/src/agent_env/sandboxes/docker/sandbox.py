"""One container."""

from __future__ import annotations

import asyncio
import posixpath
import time
from typing import TYPE_CHECKING, Literal

from agent_env.errors import SandboxError, SandboxGone, SandboxNotFound, SandboxUnsupported
from agent_env.plugin.sandbox import Endpoint, ExecResult, Sandbox
from agent_env.sandboxes.docker import containers, execs, files, labels
from agent_env.sandboxes.docker.failures import NAME, EngineError, to_error

if TYPE_CHECKING:
    import tarfile
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from agent_env.plugin.sandbox import Isolation
    from agent_env.sandboxes.docker.labels import Found
    from agent_env.sandboxes.docker.provider import DockerProvider
    from agent_env.sandboxes.docker.readiness import Reach

_UNPACK = "import sys, tarfile; tarfile.open(fileobj=sys.stdin.buffer, mode='r|').extractall('/')"
_TAIL = 2000


class DockerSandbox(Sandbox):
    """A container; `attach` makes one that another process created."""

    isolation: Isolation = "container"

    def __init__(
        self,
        provider: DockerProvider,
        found: Found,
        *,
        workdir: str,
        user: str,
        read_only: bool,
        endpoint: Endpoint | None,
        reach: Reach | None,
        ours: bool,
    ) -> None:
        self.id = found.id
        self.labels: Mapping[str, str] = found.labels
        self.expires_at: float | None = found.expires_at
        self.create_id = found.create_id
        self.ours = ours
        self.reach = reach
        self.closed = False
        self.note = ""
        self._provider = provider
        self._workdir = workdir or "/"
        self._user = user
        self._read_only = read_only
        self._endpoint = endpoint
        self._owner: tuple[int, int] | None = None
        self._closing: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<DockerSandbox {self.id}>"

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
        self._check_open()
        try:
            return await execs.run(
                self._provider.engine,
                self.id,
                argv,
                cwd=self._path(cwd or ""),
                env=env,
                stdin=stdin,
                timeout=timeout,
                max_output=max_output,
                kills=self._provider.kills,
            )
        except (SandboxGone, SandboxNotFound) as error:
            raise await self._gone(str(error)) from error

    async def _gone(self, message: str) -> SandboxGone:
        """The error with how the container ended."""
        code, tail = await self.exit_code(), await self.logs(_TAIL)
        how = f" with exit code {code}" if code is not None else ""
        said = f"; its last output: {tail.strip()}" if tail.strip() else ""
        return SandboxGone(f"{message}{how}{said}", exit_code=code, log_tail=tail, provider=NAME, sandbox_id=self.id)

    def _check_open(self) -> None:
        if self._closing is not None:
            why = f" ({self.note})" if self.note else ""
            raise SandboxGone(f"sandbox {self.id} has ended{why}", provider=NAME, sandbox_id=self.id)

    def _path(self, path: str) -> str:
        """An absolute path; relative ones start at the image's work folder."""
        return posixpath.normpath(posixpath.join("/", self._workdir.lstrip("/"), path))

    # -- files --------------------------------------------------------------------------------------------------------

    async def read(self, path: str, *, max_bytes: int = 64 * 1024 * 1024) -> bytes:
        self._check_open()
        try:
            return await files.read(self._provider.engine, self.id, self._path(path), max_bytes)
        except SandboxNotFound as error:
            raise await self._gone(f"sandbox {self.id} has ended") from error

    async def write(self, path: str, data: bytes, *, mode: int | None = None) -> None:
        full = self._path(path)
        if mode is None:
            mode = await self._mode_of(full)
        owner = await self._owner_ids()
        await self._put(full, files.pack_bytes(full, data, mode, owner))

    async def _mode_of(self, path: str) -> int:
        """The mode of a file that is written over."""
        self._check_open()
        try:
            found = await files.file_state(self._provider.engine, self.id, path)
        except FileNotFoundError:
            return 0o644
        except SandboxNotFound as error:
            raise await self._gone(f"sandbox {self.id} has ended") from error
        if files.is_folder(found):
            raise IsADirectoryError(21, "Is a directory", path)
        return int(found["mode"]) & 0o777

    async def upload(self, local: Path, remote: str) -> None:
        full = self._path(remote)
        await self._put(full, files.pack_path(local, full, await self._owner_ids()))

    async def download(self, remote: str, local: Path) -> None:
        self._check_open()
        try:
            await files.download(self._provider.engine, self.id, self._path(remote), local)
        except SandboxNotFound as error:
            raise await self._gone(f"sandbox {self.id} has ended") from error

    async def _owner_ids(self) -> tuple[int, int]:
        self._check_open()
        if self._owner is None:
            self._owner = await self._provider.owner_ids(self.id, self._user)
        return self._owner

    async def _put(self, path: str, add: Callable[[tarfile.TarFile], None]) -> None:
        engine = self._provider.engine
        try:
            folders = await files.missing_folders(engine, self.id, path)
            with await asyncio.to_thread(files.packed, folders, await self._owner_ids(), add) as tar:
                if not self._read_only:
                    await files.put(engine, self.id, tar, path)
                    return
                # The engine writes beneath what is mounted there: so the container's own Python unpacks it.
                done = await self.exec(["python3", "-c", _UNPACK], cwd="/", stdin=await asyncio.to_thread(tar.read))
        except SandboxNotFound as error:
            raise await self._gone(f"sandbox {self.id} has ended") from error
        if done.exit_code != 0:
            raise SandboxUnsupported(
                f"writing {path} into a container with a read-only root failed: {done.stderr.strip()[-500:]}",
                provider=NAME,
                sandbox_id=self.id,
            )

    # -- state --------------------------------------------------------------------------------------------------------

    async def endpoint(self) -> Endpoint:
        if self._endpoint is None:
            raise SandboxUnsupported(
                f"sandbox {self.id} was created without a server", provider=NAME, sandbox_id=self.id
            )
        return self._endpoint

    async def extend(self, ttl_s: float) -> None:
        self._check_open()
        expires_at = time.time() + ttl_s
        # Labels cannot change; the name can, and every process sees it.
        name = labels.name_of(self.create_id, expires_at)
        try:
            await self._provider.engine.call("POST", f"containers/{self.id}/rename", params={"name": name})
        except EngineError as error:
            if error.status == 404:
                raise await self._gone(f"sandbox {self.id} has ended") from error
            if error.status != 409 or "already in use" not in error.message:  # it has that very name
                raise to_error(error, f"sandbox {self.id}: extend", self.id) from error
        self.expires_at = expires_at
        self._provider.extended(self)

    async def status(self) -> Literal["starting", "running", "exited", "gone"]:
        if self.closed:
            return "gone"
        found = await containers.inspect(self._provider.engine, self.id)
        return labels.status_of(str(found["State"]["Status"])) if found is not None else "gone"

    async def exit_code(self) -> int | None:
        if self.closed:
            return None
        return containers.exit_code(await containers.inspect(self._provider.engine, self.id))

    async def logs(self, tail: int = 4096) -> str:
        """What it wrote; a last line says why it was ended by somebody else than itself."""
        text, note = "", self.note
        if not self.closed:
            text = await containers.logs(self._provider.engine, self.id, tail)
            note = note or containers.killed(await containers.inspect(self._provider.engine, self.id))
        if not note:
            return text
        return (f"{text.rstrip()}\n[{note}]" if text.strip() else f"[{note}]")[-tail:]

    async def close(self) -> None:
        if self._closing is None or (self._closing.done() and _failed(self._closing)):
            self._closing = self._provider.end(self)
        # A caller that is cancelled stops waiting; the end itself goes on and the provider waits for it.
        await asyncio.shield(self._closing)


def _failed(task: asyncio.Task[None]) -> bool:
    return task.cancelled() or isinstance(task.exception(), SandboxError)
