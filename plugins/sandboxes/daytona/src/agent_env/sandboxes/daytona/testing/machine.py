"""A stand-in machine: a private root and network on this host, made with bubblewrap."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_AGENT = Path(__file__).with_name("agent.py")
_START_S = 20.0


def usable() -> str:
    """Why there can be no machines here; empty when there can."""
    return "" if shutil.which("bwrap") else "the stand-in needs bubblewrap (bwrap)"


def environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Variables of a machine's processes: Python is the one that runs this."""
    path = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
    return {"PATH": path, "HOME": "/tmp", "LANG": "C.UTF-8", **extra}  # noqa: S108


def _host_folders() -> list[Path]:
    """What a machine sees of the host, read-only: programs, libraries and this Python."""
    names = ("/usr", "/etc/ssl", "/etc/alternatives", "/etc/passwd", "/etc/group", "/etc/ld.so.cache")
    found = [Path(name) for name in names]
    return [*found, Path(sys.prefix), Path(sys.base_prefix)]


def command(
    root: Path, argv: Sequence[str], *, share: Path | None = None, workdir: str = "/", network: bool = False
) -> list[str]:
    """``argv`` in the machine whose root folder is ``root``; with ``network`` it has the host's."""
    words = ["bwrap", "--bind", str(root), "/", "--unshare-all", "--die-with-parent", "--new-session"]
    if network:
        words.append("--share-net")
    for name in ("/bin", "/sbin", "/lib", "/lib64"):
        path = Path(name)
        if path.is_symlink():
            words += ["--symlink", os.readlink(name), name]  # noqa: PTH115
        elif path.exists():
            words += ["--ro-bind", name, name]
    for path in _host_folders():
        if path.exists():
            words += ["--ro-bind", str(path), str(path)]
    words += ["--ro-bind", str(_AGENT), "/run/agent.py", "--proc", "/proc", "--dev", "/dev"]
    if share is not None:
        words += ["--bind", str(share), "/run/share"]
    return [*words, "--chdir", workdir, "--", *argv]


def make_root(root: Path, source: Path | None) -> None:
    """A machine's root folder, with the files of a snapshot."""
    if source is not None:
        shutil.copytree(source, root, symlinks=True)
    for name in ("tmp", "run/share", "root", "etc"):
        (root / name).mkdir(parents=True, exist_ok=True)


class Machine:
    """One machine. `start` it, then use its commands, files and ports; `stop` ends everything in it."""

    def __init__(
        self, folder: Path, source: Path | None, env: Mapping[str, str], workdir: str, *, network: bool
    ) -> None:
        self.folder = folder
        self.root = folder / "root"
        self._source = source
        self._env = environment(env)
        self._workdir = workdir
        self._network = network
        self._process: asyncio.subprocess.Process | None = None

    @property
    def socket(self) -> str:
        """Where its agent listens."""
        return str(self.folder / "s" / "a")

    async def start(self) -> None:
        """Start it."""
        await asyncio.to_thread((self.folder / "s").mkdir, parents=True)
        await asyncio.to_thread(make_root, self.root, self._source)
        await asyncio.to_thread(self.path(self._workdir).mkdir, parents=True, exist_ok=True)
        agent = [sys.executable, "-I", "-S", "/run/agent.py", "/run/share/a"]
        argv = command(self.root, agent, share=self.folder / "s", network=self._network)
        self._process = await asyncio.create_subprocess_exec(
            *argv, env=self._env, stdin=asyncio.subprocess.DEVNULL, start_new_session=True
        )
        async with asyncio.timeout(_START_S):
            while not await self._answers():
                if self._process.returncode is not None:
                    raise RuntimeError(f"the stand-in machine ended with {self._process.returncode}")
                await asyncio.sleep(0.01)

    async def _answers(self) -> bool:
        """Whether its agent listens: its socket is there a little earlier."""
        try:
            _, writer = await self.connect()
        except OSError:
            return False
        writer.close()
        return True

    async def stop(self) -> None:
        """End it with all that runs in it."""
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()
        await asyncio.to_thread(shutil.rmtree, self.folder, ignore_errors=True)

    def path(self, inside: str) -> Path:
        """Where a path of the machine is on this host."""
        return self.root / os.path.normpath("/" + inside).lstrip("/")

    def absolute(self, inside: str) -> str:
        """A path of the machine; relative ones start at its work folder."""
        return os.path.normpath(os.path.join(self._workdir, inside))  # noqa: PTH118

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to its agent."""
        return await asyncio.open_unix_connection(self.socket, limit=64 << 20)

    async def run(self, text: str, *, cwd: str | None, env: Mapping[str, str], timeout: float) -> dict[str, Any]:
        """Run a command to its end."""
        reader, writer = await self.connect()
        try:
            request = {
                "op": "exec",
                "command": text,
                "cwd": cwd,
                "workdir": self._workdir,
                "env": {**self._env, **env},
                "timeout": timeout,
            }
            writer.write(json.dumps(request).encode() + b"\n")
            answer: dict[str, Any] = json.loads(await reader.readline())
            return answer
        finally:
            writer.close()
