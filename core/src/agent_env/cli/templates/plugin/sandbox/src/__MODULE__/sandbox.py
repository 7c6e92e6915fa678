"""One sandbox."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from agent_env.plugin.sandbox import Sandbox

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from agent_env.plugin.sandbox import Endpoint, ExecResult


class __CLASS__Sandbox(Sandbox):
    """Every method raises `SandboxGone` once the sandbox has ended, but for `close` and `status`."""

    def __init__(self, inner: Sandbox) -> None:
        self._inner = inner
        self.id = inner.id
        self.labels = inner.labels
        self.isolation = inner.isolation
        self.expires_at = inner.expires_at

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
        """Run a command without a shell; past the deadline, or when cancelled, it is killed with all its children."""
        return await self._inner.exec(argv, cwd=cwd, env=env, stdin=stdin, timeout=timeout, max_output=max_output)

    async def read(self, path: str, *, max_bytes: int = 64 * 1024 * 1024) -> bytes:
        """`FileNotFoundError`, `IsADirectoryError`, or `ValueError` for a file that is too large."""
        return await self._inner.read(path, max_bytes=max_bytes)

    async def write(self, path: str, data: bytes, *, mode: int | None = None) -> None:
        """Folders are made."""
        await self._inner.write(path, data, mode=mode)

    async def upload(self, local: Path, remote: str) -> None:
        """A file, or the content of a folder; what else is in the remote folder stays."""
        await self._inner.upload(local, remote)

    async def download(self, remote: str, local: Path) -> None:
        """A file or a folder."""
        await self._inner.download(remote, local)

    async def endpoint(self) -> Endpoint:
        """How to reach the server, secret headers included; `SandboxUnsupported` without a server."""
        return await self._inner.endpoint()

    async def extend(self, ttl_s: float) -> None:
        """The new life counts from now."""
        await self._inner.extend(ttl_s)
        self.expires_at = self._inner.expires_at

    async def status(self) -> Literal["starting", "running", "exited", "gone"]:
        """What it does now."""
        return await self._inner.status()

    async def exit_code(self) -> int | None:
        """The server's, or `None`."""
        return await self._inner.exit_code()

    async def logs(self, tail: int = 4096) -> str:
        """The end of what the server wrote."""
        return await self._inner.logs(tail)

    async def close(self) -> None:
        """End it; also when its caller is cancelled, and when it has ended already."""
        await self._inner.close()
