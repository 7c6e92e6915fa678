"""One sandbox of the process provider."""

from __future__ import annotations

import asyncio
import contextlib
import posixpath
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from agent_env.errors import SandboxGone, SandboxNotFound, SandboxUnsupported
from agent_env.plugin.sandbox import Endpoint, ExecResult, Isolation, Sandbox
from agent_env.sandboxes.process import rooted
from agent_env.sandboxes.process.cell import Cell, files_of
from agent_env.sandboxes.process.cells import folders_of
from agent_env.sandboxes.process.identity import host_pid
from agent_env.sandboxes.process.keeper.files import read_json, write_json
from agent_env.sandboxes.process.keeper.ringlog import read_tail

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from agent_env.sandboxes.process.link import Held, Link
    from agent_env.sandboxes.process.provider import ProcessProvider


@dataclass(slots=True)
class Launch:
    """How the commands of a sandbox are run; what of it is no secret is kept in its ``meta.json``.

    Attributes:
        workdir: folder of the env's files, absolute under the sandbox's root.
        isolation: what the sandbox really has.
        network: whether it shares the host's network.
        interpreter: the Python that stands first on its PATH.
        env: variables of its processes.
        secrets: further variables.
        limits: rlimits by name.
        port: TCP port it was told to use.
        relayed: a relay may have to lead from the unix socket to the port.
    """

    workdir: str
    isolation: Isolation
    network: bool
    interpreter: str
    env: dict[str, str] = field(default_factory=dict[str, str])
    secrets: dict[str, str] = field(default_factory=dict[str, str], repr=False)
    limits: dict[str, int] = field(default_factory=dict[str, int])
    port: int = 0

    def record(self) -> dict[str, Any]:
        """The part that is no secret, as JSON."""
        return {
            "workdir": self.workdir,
            "isolation": self.isolation,
            "network": self.network,
            "interpreter": self.interpreter,
            "env": self.env,
            "limits": self.limits,
            "port": self.port,
        }


class ProcessSandbox(Sandbox):
    """A private folder with the processes of one env; `attach` makes one without ``held``."""

    def __init__(
        self,
        provider: ProcessProvider,
        folder: Path,
        launch: Launch,
        *,
        sandbox_id: str,
        labels: Mapping[str, str],
        expires_at: float | None,
        endpoint: Endpoint | None,
        held: Held | None = None,
        link: Link | None = None,
    ) -> None:
        self.id = sandbox_id
        self.labels = labels
        self.isolation = launch.isolation
        self.expires_at = expires_at
        self.folder = folder
        self.launch = launch
        self._provider = provider
        self._endpoint = endpoint
        self._held = held
        self.link = link
        self._closing: asyncio.Task[None] | None = None

    @property
    def cell(self) -> Cell | None:
        """What holds it to its limits, for those that this provider made."""
        return self._held.cell if self._held is not None else None

    def cells(self) -> list[str]:
        """What a process of it writes itself into, when it has limits."""
        if self._held is not None:
            return self.cell.files if self.cell is not None else []
        return files_of(folders_of(self.folder))

    def check_killed(self) -> None:
        """Raise when it was ended for lack of memory.

        Raises:
            SandboxGone: it says so.
        """
        if self.cell is not None and self.cell.together and (words := self.cell.words()):
            raise SandboxGone(f"sandbox {self.id} was {words}", exit_code=137, provider="process", sandbox_id=self.id)

    def __repr__(self) -> str:
        return f"<ProcessSandbox {self.id} {self.isolation}>"

    @property
    def root(self) -> Path:
        """What the sandbox's absolute paths start from."""
        return self.folder / "root"

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
        self._check_there()
        return await self._provider.exec_in(
            self, list(argv), cwd=self._inside(cwd), env=env, stdin=stdin, timeout=timeout, max_output=max_output
        )

    def _inside(self, path: str | None) -> str:
        """An absolute path under the sandbox's root; relative ones start at its work folder."""
        return posixpath.normpath(posixpath.join("/", self.launch.workdir.lstrip("/"), path or ""))

    def _path(self, path: str) -> str:
        self._check_there()
        return posixpath.join(self.launch.workdir, path)

    def _check_there(self) -> None:
        if self._closing is not None or (self._held is not None and self._held.ended.done()) or not self.root.is_dir():
            why = f": it was {words}" if self.cell is not None and (words := self.cell.words()) else ""
            raise SandboxGone(f"sandbox {self.id} has ended{why}", provider="process", sandbox_id=self.id)

    async def read(self, path: str, *, max_bytes: int = 64 * 1024 * 1024) -> bytes:
        return await asyncio.to_thread(rooted.read_file, self.root, self._path(path), max_bytes)

    async def write(self, path: str, data: bytes, *, mode: int | None = None) -> None:
        await asyncio.to_thread(rooted.write_file, self.root, self._path(path), data, mode)

    async def upload(self, local: Path, remote: str) -> None:
        await asyncio.to_thread(rooted.upload, self.root, local, self._path(remote))

    async def download(self, remote: str, local: Path) -> None:
        await asyncio.to_thread(rooted.download, self.root, self._path(remote), local)

    # -- state --------------------------------------------------------------------------------------------------------

    async def endpoint(self) -> Endpoint:
        if self._endpoint is None:
            raise SandboxUnsupported(
                f"sandbox {self.id} was created without a server", provider="process", sandbox_id=self.id
            )
        return self._endpoint

    async def extend(self, ttl_s: float) -> None:
        self._check_there()
        meta = read_json(str(self.folder / "meta.json"))
        if meta is None:
            raise SandboxGone(f"sandbox {self.id} has ended", provider="process", sandbox_id=self.id)
        self.expires_at = meta["expires_at"] = time.time() + ttl_s
        try:  # others see it at once; its keeper reads the file again before it ends the sandbox
            write_json(str(self.folder / "meta.json"), meta)
        except FileNotFoundError:
            raise SandboxGone(f"sandbox {self.id} has ended", provider="process", sandbox_id=self.id) from None
        if self._held is not None:
            self._provider.extended(self)

    async def status(self) -> Literal["starting", "running", "exited", "gone"]:
        if self._held is not None:
            if self._held.ended.done():
                return "gone"
            return "exited" if self._held.exited.done() else "running"
        return status_of(read_json(str(self.folder / "meta.json")))

    async def exit_code(self) -> int | None:
        return self._held.exited.result() if self._held is not None and self._held.exited.done() else None

    async def logs(self, tail: int = 4096) -> str:
        text = await asyncio.to_thread(read_tail, str(self.folder / "log"), tail)
        if not (why := self._why_ended()):
            return text
        # The last words of one that its limits or its time ended, which it cannot say itself.
        said = f"{text.rstrip()}\n[{why}]\n".lstrip()
        return said.encode()[-tail:].decode(errors="replace") if tail > 0 else ""

    def _why_ended(self) -> str:
        if self._held is None or not self._held.exited.done():
            return ""
        if self._held.expired:
            return "ended: its time to live was over"
        return self.cell.hint() if self.cell is not None else ""

    async def exited(self) -> int | None:
        """Wait until the server ended; its exit code, None when it cannot be known."""
        if self._held is None:
            raise SandboxUnsupported("only the provider that made a sandbox can wait for it", provider="process")
        await asyncio.wait([self._held.exited])
        return self._held.exited.result()

    async def close(self) -> None:
        if self._closing is None:
            self._closing = asyncio.create_task(self._provider.end(self, self._held))
        # A caller that is cancelled stops waiting; the end itself goes on and the provider waits for it.
        await asyncio.shield(self._closing)


def status_of(meta: dict[str, Any] | None) -> Literal["starting", "running", "exited", "gone"]:
    """Status of a sandbox of another process, as its ``meta.json`` and /proc tell."""
    if meta is None:
        return "gone"
    if not meta.get("pid"):
        return "running"
    if host_pid(meta) is None:
        return "exited"
    return "running" if meta.get("ready") else "starting"


def from_record(provider: ProcessProvider, folder: Path, sandbox_id: str) -> ProcessSandbox:
    """A sandbox that another process made.

    Raises:
        SandboxNotFound: there is none any more.
    """
    meta = read_json(str(folder / "meta.json"))
    if meta is None:
        raise SandboxNotFound(f"no sandbox has the id {sandbox_id!r}", provider="process", sandbox_id=sandbox_id)
    endpoint: Endpoint | None = None
    with contextlib.suppress(KeyError, TypeError):
        endpoint = Endpoint(url=meta["endpoint"]["url"], uds=meta["endpoint"]["uds"])
    return ProcessSandbox(
        provider,
        folder,
        Launch(**meta["launch"]),
        sandbox_id=sandbox_id,
        labels=meta["labels"],
        expires_at=meta["expires_at"],
        endpoint=endpoint,
    )
