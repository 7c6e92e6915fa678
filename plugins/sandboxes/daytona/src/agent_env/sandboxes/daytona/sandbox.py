"""One sandbox."""

from __future__ import annotations

import asyncio
import posixpath
import time
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from agent_env.errors import SandboxError, SandboxGone, SandboxNotFound, SandboxUnavailable, SandboxUnsupported
from agent_env.plugin.sandbox import Endpoint, ExecResult, Sandbox
from agent_env.plugin.sandboxing import lease
from agent_env.sandboxes.daytona import ending, execs, files, labels, readiness, scripts
from agent_env.sandboxes.daytona.client import minutes
from agent_env.sandboxes.daytona.sdk import NAME

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence
    from pathlib import Path

    from agent_env.plugin.sandbox import Isolation
    from agent_env.sandboxes.daytona.labels import Found
    from agent_env.sandboxes.daytona.provider import DaytonaProvider
    from agent_env.sandboxes.daytona.sdk import Remote

T = TypeVar("T")
_TAIL = 2000
_MOST_FOLDER = 1 << 30


class DaytonaSandbox(Sandbox):
    """A sandbox; `attach` makes one that another process created."""

    isolation: Isolation = "container"

    def __init__(self, provider: DaytonaProvider, remote: Remote, found: Found, *, ours: bool) -> None:
        self.id = found.id
        self.labels: Mapping[str, str] = found.labels
        self.expires_at: float | None = found.expires_at
        self.ours = ours
        self.closed = False
        self._provider = provider
        self._remote = remote
        self._about = found.about
        self._closing: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<DaytonaSandbox {self.id}>"

    async def _do(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something in a running sandbox.

        Raises:
            SandboxGone: it has ended.
        """
        if self._closing is not None:
            work.close()
            raise self._ended()
        try:
            return await work
        except SandboxGone:
            raise
        except SandboxNotFound as error:
            raise self._ended() from error
        except SandboxUnavailable as error:
            if await ending.find(self._provider.api, self.id) is None:
                raise self._ended() from error
            raise

    def _ended(self) -> SandboxGone:
        return SandboxGone(f"sandbox {self.id} has ended", provider=NAME, sandbox_id=self.id)

    def _path(self, path: str) -> str:
        """An absolute path; relative ones start at the image's work folder."""
        return posixpath.normpath(posixpath.join("/", self._about.workdir, path))

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
        return await self._do(self._exec(argv, cwd, env or {}, stdin, timeout, max_output))

    async def _exec(
        self,
        argv: Sequence[str],
        cwd: str | None,
        env: Mapping[str, str],
        stdin: bytes | None,
        timeout: float,
        max_output: int,
    ) -> ExecResult:
        return await execs.run(
            self._provider.api,
            self._remote,
            argv,
            cwd=self._path(cwd) if cwd is not None else self._about.workdir,
            env=env,
            stdin=stdin,
            timeout=timeout,
            max_output=max_output,
            tasks=self._provider.tasks,
        )

    async def _tool(self, argv: Sequence[str], what: str) -> None:
        """A command of our own that has to work."""
        done = await self._exec(argv, "/", {}, None, 600.0, 65536)
        if done.exit_code != 0:
            said = (done.stderr or done.stdout).strip()[-500:]
            if "No such file" in said:
                raise FileNotFoundError(2, said, what)
            raise SandboxError(
                f"sandbox {self.id}: {what}: {argv[0]} ended with exit code {done.exit_code}: {said}",
                provider=NAME,
                sandbox_id=self.id,
            )

    # -- files --------------------------------------------------------------------------------------------------------

    async def read(self, path: str, *, max_bytes: int = 64 * 1024 * 1024) -> bytes:
        return await self._do(files.get(self._provider.api, self._remote, self._path(path), max_bytes))

    async def write(self, path: str, data: bytes, *, mode: int | None = None) -> None:
        await self._do(self._write(self._path(path), data, mode))

    async def _write(self, path: str, data: bytes, mode: int | None) -> None:
        await files.put(self._provider.api, self._remote, {path: data})
        if mode is not None:
            await self._tool(["chmod", f"{mode:o}", path], f"writing {path}")

    async def upload(self, local: Path, remote: str) -> None:
        await self._do(self._upload(local, self._path(remote)))

    async def _upload(self, local: Path, path: str) -> None:
        if await asyncio.to_thread(local.is_dir):
            packed = f"{scripts.FOLDER}/{lease.new_id()}.tar.gz"
            await files.put(self._provider.api, self._remote, {packed: await asyncio.to_thread(files.pack, local)})
            unpack = 'mkdir -p "$1" && tar -xzf "$2" -C "$1" && rm -f "$2"'
            await self._tool(["sh", "-c", unpack, "sh", path, packed], f"writing {path}")
            return
        data, mode = await asyncio.to_thread(local.read_bytes), await files.mode_of(local)
        await self._write(path, data, mode)

    async def download(self, remote: str, local: Path) -> None:
        await self._do(self._download(self._path(remote), local))

    async def _download(self, path: str, local: Path) -> None:
        await asyncio.to_thread(local.parent.mkdir, parents=True, exist_ok=True)
        packed = f"{scripts.FOLDER}/{lease.new_id()}.tar.gz"
        pack = (
            'mkdir -p "${2%/*}"; [ -e "$1" ] || { echo "No such file or directory" >&2; exit 44; }; '
            'if [ -d "$1" ]; then tar -czf "$2" -C "$1" . && echo folder; '
            'else tar -czf "$2" -C "${1%/*}/" "./${1##*/}"; fi'
        )
        done = await self._exec(["sh", "-c", pack, "sh", path, packed], "/", {}, None, 600.0, 65536)
        if done.exit_code == 44:
            raise FileNotFoundError(2, "No such file or directory", path)
        if done.exit_code != 0:
            raise SandboxError(
                f"sandbox {self.id}: reading {path}: {done.stderr.strip()[-500:]}", provider=NAME, sandbox_id=self.id
            )
        data = await files.get(self._provider.api, self._remote, packed, _MOST_FOLDER)
        is_dir = done.stdout.strip() == "folder"
        await asyncio.to_thread(files.unpack, data, local, is_dir=is_dir)
        await self._tool(["rm", "-f", packed], f"reading {path}")

    # -- state --------------------------------------------------------------------------------------------------------

    async def endpoint(self) -> Endpoint:
        if not self._about.serves:
            raise SandboxUnsupported(
                f"sandbox {self.id} was created without a server", provider=NAME, sandbox_id=self.id
            )
        return await self._do(readiness.preview(self._provider.api, self._remote, self._about.port))

    async def renew(self, lease_minutes: int) -> None:
        """Let Daytona keep it for so many minutes from now.

        Raises:
            SandboxNotFound: it has ended.
        """
        await self._provider.api.call(
            lambda: self._remote.set_ttl(lease_minutes), f"sandbox {self.id}: lease", sandbox_id=self.id
        )

    async def extend(self, ttl_s: float) -> None:
        await self._do(self._extend(ttl_s))

    async def _extend(self, ttl_s: float) -> None:
        api = self._provider.api
        expires_at = time.time() + ttl_s
        remote = await api.call(lambda: api.client.get(self.id), f"sandbox {self.id}", sandbox_id=self.id)
        marks = {**remote.labels, labels.LABELS.expires: f"{expires_at:.3f}"}
        await api.call(lambda: remote.set_labels(marks), f"sandbox {self.id}: extend", sandbox_id=self.id)
        # Who has not made it does not renew its lease either.
        await self.renew(self._provider.keeper.lease(ttl_s) if self.ours else minutes(ttl_s))
        self.expires_at = expires_at
        self._provider.keeper.extended(self)

    async def status(self) -> Literal["starting", "running", "exited", "gone"]:
        if self.closed:
            return "gone"
        remote = await ending.find(self._provider.api, self.id)
        found = labels.read(remote) if remote is not None else None
        if found is None:
            return "gone"
        if found.status == "running" and await self.exit_code() is not None:
            return "exited"
        return found.status

    async def exit_code(self) -> int | None:
        if self.closed or not (self._about.serves and self._about.ours):
            return None
        try:
            return await readiness.state(self._provider.api, self._remote)
        except SandboxError:
            return None

    async def logs(self, tail: int = 4096) -> str:
        if self.closed or not self._about.serves:
            return ""
        text = (await readiness.log(self._provider.api, self._remote, tail)).encode()
        return text[max(0, len(text) - tail) :].decode(errors="ignore")

    async def close(self) -> None:
        if self._closing is None or (self._closing.done() and _failed(self._closing)):
            self._closing = self._provider.end(self)
        # A caller that is cancelled stops waiting; the end itself goes on and the provider waits for it.
        await asyncio.shield(self._closing)


def _failed(task: asyncio.Task[None]) -> bool:
    return task.cancelled() or task.exception() is not None
