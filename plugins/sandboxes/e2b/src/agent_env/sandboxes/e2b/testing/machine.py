"""A sandbox of the stand-in: a root folder, and a bubblewrap namespace in which the agent runs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from agent_env.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

AGENT: Final = Path(__file__).with_name("agent.py")
SOCKETS: Final = "/run/standin"
TOOLS: Final = "/opt/standin/bin"
ENV: Final[Mapping[str, str]] = {
    "PATH": f"{TOOLS}:/usr/local/bin:/usr/bin:/bin",
    "HOME": "/home/user",
    "LANG": "C.UTF-8",
}
_PYTHON: Final = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
_NO_USERS: Final = ("useradd", "adduser", "groupadd", "addgroup", "chown")
_START_S = 20.0


def bubblewrap() -> str:
    """The program.

    Raises:
        UsageError: it does not work here.
    """
    program = shutil.which("bwrap")
    argv = [program or "", "--ro-bind", "/", "/", "--proc", "/proc", "--unshare-all", "true"]
    if program is None or subprocess.run(argv, check=False, capture_output=True).returncode != 0:
        raise UsageError("the stand-in's sandboxes need bubblewrap (bwrap), which does not work here")
    return program


def new_root(root: Path) -> None:
    """The file system of an image, whatever its name: Python and a shell, which are this machine's."""
    for name in ("etc", "tmp", "home/user", "root", "opt", "var/tmp", "run/standin", TOOLS.lstrip("/")):
        (root / name).mkdir(parents=True, exist_ok=True)
    for name in ("tmp", "var/tmp", "home/user"):
        (root / name).chmod(0o1777)
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/bash\nuser:x:1000:1000::/home/user:/bin/bash\n")
    (root / "etc/group").write_text("root:x:0:\nuser:x:1000:\n")
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        host = Path("/") / name
        if host.is_symlink():
            (root / name).symlink_to(host.readlink())
    for name in ("python", "python3"):
        (root / TOOLS.lstrip("/") / name).symlink_to(_PYTHON)
    for name in _NO_USERS:
        tool = root / TOOLS.lstrip("/") / name
        tool.write_text("#!/bin/sh\nexit 0\n")
        tool.chmod(0o755)


def enclosed(root: Path, *, sockets: Path | None = None) -> list[str]:
    """The command line up to the command."""
    argv = [bubblewrap_program(), "--bind", str(root), "/", "--ro-bind", "/usr", "/usr"]
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        host = Path("/") / name
        if host.is_dir() and not host.is_symlink():
            argv += ["--ro-bind", str(host), str(host)]
    for name in ("alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d"):
        argv += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    if not sys.base_prefix.startswith("/usr"):
        argv += ["--ro-bind", sys.base_prefix, sys.base_prefix]
    if sockets is not None:
        argv += ["--bind", str(sockets), SOCKETS, "--ro-bind", str(AGENT), "/run/agent.py"]
    return [*argv, "--proc", "/proc", "--dev", "/dev", "--unshare-all", "--die-with-parent", "--clearenv"]


_PROGRAM: list[str] = []


def bubblewrap_program() -> str:
    """As `bubblewrap`, looked for once."""
    if not _PROGRAM:
        _PROGRAM.append(bubblewrap())
    return _PROGRAM[0]


def setenv(env: Mapping[str, str]) -> list[str]:
    """Arguments of bubblewrap for an environment."""
    return [word for name, value in env.items() for word in ("--setenv", name, value)]


class Machine:
    """A running sandbox."""

    def __init__(self, folder: Path, process: asyncio.subprocess.Process) -> None:
        self.root = folder / "root"
        self._folder = folder
        # The path of a unix socket is short.
        self._sockets = folder / "s"
        self._process = process
        self._ports: dict[int, str] = {}

    @classmethod
    async def start(cls, home: Path, template: Path, env: Mapping[str, str], *, internet: bool) -> Machine:
        """A sandbox with a copy of the template's files; with ``internet`` it is in this machine's network."""
        folder = Path(tempfile.mkdtemp(prefix="m", dir=home))
        try:
            (folder / "s").mkdir()
            await asyncio.to_thread(shutil.copytree, template, folder / "root", symlinks=True)
            process = await asyncio.create_subprocess_exec(
                *enclosed(folder / "root", sockets=folder / "s"),
                *(["--share-net"] if internet else []),
                *setenv({**ENV, **env}),
                "--chdir",
                "/",
                str(_PYTHON),
                "-I",
                "-S",
                "/run/agent.py",
                SOCKETS,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        machine = cls(folder, process)
        try:
            async with asyncio.timeout(_START_S):
                while not await machine.answers():
                    if process.returncode is not None:
                        raise RuntimeError(f"the stand-in's sandbox ended with {process.returncode}")
                    await asyncio.sleep(0.005)
        except BaseException:
            await machine.stop()
            raise
        return machine

    async def answers(self) -> bool:
        """Whether the agent listens."""
        try:
            _, writer = await asyncio.open_unix_connection(str(self._sockets / "agent"))
        except OSError:
            return False
        writer.close()
        return True

    async def stop(self) -> None:
        """End everything in it."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    def path(self, path: str) -> Path:
        """Where a path of the sandbox is on this machine; links are followed as the sandbox sees them."""
        at = self.root
        parts = [part for part in path.split("/") if part]
        hops = 0
        while parts:
            part = parts.pop(0)
            if part == "..":
                at = at.parent if at != self.root else at
                continue
            at = at / part
            if at.is_symlink() and hops < 40:
                hops += 1
                target = os.readlink(at)  # noqa: PTH115
                at = self.root if target.startswith("/") else at.parent
                parts = [piece for piece in target.split("/") if piece and piece != "."] + parts
        return at

    @contextlib.asynccontextmanager
    async def _ask(self, request: dict[str, Any]) -> AsyncGenerator[asyncio.StreamReader]:
        reader, writer = await asyncio.open_unix_connection(str(self._sockets / "agent"), limit=64 << 20)
        try:
            writer.write(json.dumps(request).encode() + b"\n")
            await writer.drain()
            yield reader
        finally:
            writer.close()

    async def run(
        self, cmd: str, args: list[str], *, env: Mapping[str, str], cwd: str
    ) -> AsyncGenerator[dict[str, Any]]:
        """A command's events: ``pid``, ``out`` and ``err`` in base64, ``end``; or ``error``."""
        request = {"op": "exec", "cmd": cmd, "args": args, "cwd": cwd, "env": dict(env)}
        async with self._ask(request) as reader:
            while line := await reader.readline():
                yield json.loads(line)

    async def kill(self, pid: int) -> bool:
        """Send SIGKILL; False when there is no such process."""
        async with self._ask({"op": "kill", "pid": pid}) as reader:
            return bool(json.loads(await reader.readline() or b"{}").get("ok"))

    async def port(self, port: int) -> str:
        """A unix socket that leads to a TCP port inside."""
        if port not in self._ports:
            async with self._ask({"op": "listen", "port": port}) as reader:
                path = json.loads(await reader.readline())["path"]
            self._ports[port] = str(self._sockets / path.rpartition("/")[2])
        return self._ports[port]
