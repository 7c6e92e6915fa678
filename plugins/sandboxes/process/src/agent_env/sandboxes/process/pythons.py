"""Python environments of envs: built once per content of their requirements, for all servers of a machine."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import os
import shutil
import signal
import sys
import tempfile
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

from agent_env.errors import BuildFailed, SandboxUnavailable
from agent_env.plugin.sandboxing.corewheel import core_wheel
from agent_env.sandboxes.process.requirements import digest, installed

if TYPE_CHECKING:
    from collections.abc import Callable

    Progress = Callable[[str], None]

_DONE = ".agentenv-complete"
_LOG_LINES = 60
_LOCK_POLL = 0.2
# What installers need of the server's environment; everything else, keys above all, stays out of build scripts.
_PASSED = ("PATH", "HOME", "LANG", "TMPDIR", "USER", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")
_PASSED_PREFIXES = ("PIP_", "UV_", "XDG_")
_PROXIES = ("http_proxy", "https_proxy", "no_proxy", "all_proxy")


def cache_root(option: Path | None) -> Path:
    """Where environments are kept."""
    if option is not None:
        return option
    if os.environ.get("AGENTENV_CACHE_DIR"):
        return Path(os.environ["AGENTENV_CACHE_DIR"])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "agentenv"


class Pythons:
    """Hands out interpreters; builds what is missing."""

    def __init__(self, root: Path, timeout: float) -> None:
        self._root = root / "pythons"
        self._timeout = timeout
        self._builds: dict[str, asyncio.Task[str]] = {}
        self._listeners: dict[str, list[Progress]] = {}
        self._said: dict[str, list[str]] = {}

    async def interpreter(self, folder: Path, requirements: str | None, progress: Progress | None) -> str:
        """The Python for an env: the server's own without requirements.

        Raises:
            BuildFailed: with the end of the installer's output.
        """
        if requirements is None:
            return sys.executable
        key = await asyncio.to_thread(self._key, folder, requirements)
        python = self._root / key / "bin" / "python"
        if (self._root / key / _DONE).exists():  # noqa: ASYNC240
            return str(python)
        listeners = self._listeners.setdefault(key, [])
        if progress is not None:
            listeners.append(progress)
        task = self._builds.get(key)
        if progress is not None:
            for line in self._said.get(key, ()):
                progress(line)
        if task is None:
            task = self._builds[key] = asyncio.create_task(self._build(key, folder, requirements, listeners))
            task.add_done_callback(lambda _: self._forget(key))
        try:
            # One that waits may be cancelled; the others still want the environment.
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():  # by `close`, not by whoever waits here
                raise SandboxUnavailable("the process provider is closing", provider="process") from None
            raise
        finally:
            if progress is not None and progress in listeners:
                listeners.remove(progress)

    def _forget(self, key: str) -> None:
        task = self._builds.pop(key, None)
        self._listeners.pop(key, None)
        self._said.pop(key, None)
        if task is not None and not task.cancelled():
            task.exception()

    async def close(self) -> None:
        """Stop builds under way."""
        tasks = list(self._builds.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    @staticmethod
    def _key(folder: Path, requirements: str) -> str:
        name, wheel = core_wheel()
        state = hashlib.sha256()
        for part in (digest(folder, requirements), sys.version, sys.base_prefix, name):
            state.update(part.encode() + b"\0")
        state.update(wheel)
        return state.hexdigest()[:24]

    # -- building -----------------------------------------------------------------------------------------------------

    async def _build(self, key: str, folder: Path, requirements: str, listeners: list[Progress]) -> str:
        said = self._said[key] = []

        def say(line: str) -> None:
            said.append(line)
            for listener in list(listeners):
                listener(line)

        home = self._root / key
        await asyncio.to_thread(self._root.mkdir, mode=0o700, parents=True, exist_ok=True)
        lock = os.open(self._root / f"{key}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            await self._acquire(lock, folder, say)
            if not (home / _DONE).exists():
                await self._install(lock, home, folder, requirements, say)
        finally:
            os.close(lock)
        return str(home / "bin" / "python")

    async def _acquire(self, lock: int, folder: Path, say: Progress) -> None:
        """Take the lock that all processes share; installers inherit it, so that it outlives a killed server."""
        said = False
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if not said:
                    say(f"{folder.name}: waiting for another process that builds the same Python environment")
                    said = True
                await asyncio.sleep(_LOCK_POLL)

    async def _install(self, lock: int, home: Path, folder: Path, requirements: str, say: Progress) -> None:
        say(f"{folder.name}: building its Python environment")
        lines, with_core = await asyncio.to_thread(installed, folder, requirements)
        log: deque[str] = deque(maxlen=_LOG_LINES)
        try:
            with tempfile.TemporaryDirectory(prefix="agentenv-build-") as scratch:
                listed = Path(scratch) / "requirements.txt"
                name, wheel = core_wheel()
                await asyncio.to_thread(listed.write_text, "\n".join([*lines, ""]))
                await asyncio.to_thread((Path(scratch) / name).write_bytes, wheel)
                await asyncio.to_thread(shutil.rmtree, home, ignore_errors=True)
                async with asyncio.timeout(self._timeout):
                    for argv in _steps(home, listed if lines else None, Path(scratch) / name if with_core else None):
                        await _run(argv, folder, lock, log, lambda line: say(f"{folder.name}: {line}"))
            await asyncio.to_thread((home / _DONE).touch)
        except TimeoutError as error:
            raise self._failed(folder, f"took longer than {self._timeout:g} s", log) from error
        except _StepFailed as error:
            raise self._failed(folder, str(error), log) from error
        finally:
            if not (home / _DONE).exists():
                # Without an await: a cancelled build leaves nothing either.
                shutil.rmtree(home, ignore_errors=True)
        say(f"{folder.name}: its Python environment is ready")

    def _failed(self, folder: Path, what: str, log: deque[str]) -> BuildFailed:
        tail = "\n".join(log)
        return BuildFailed(
            f"env {folder.name!r}: building its Python environment from requirements.txt {what}\n{tail}",
            log=tail,
            provider="process",
        )


class _StepFailed(Exception):
    pass


def _steps(home: Path, requirements: Path | None, wheel: Path | None) -> list[list[str]]:
    python = str(home / "bin" / "python")
    base = getattr(sys, "_base_executable", sys.executable)
    uv = shutil.which("uv")
    if uv is not None:
        make = [uv, "venv", "--no-project", "--no-config", "--python", base, str(home)]
        install = [uv, "pip", "install", "--python", python]
    else:
        make = [base, "-m", "venv", str(home)]
        install = [python, "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    steps = [make]
    if requirements is not None:
        steps.append([*install, "-r", str(requirements)])
    if wheel is not None:
        steps.append([*install, "--no-deps", str(wheel)])
    return steps


def _environment() -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if name in _PASSED or name.lower() in _PROXIES or name.startswith(_PASSED_PREFIXES)
    }


async def _run(argv: list[str], folder: Path, lock: int, log: deque[str], say: Progress) -> None:
    """One step of a build; its lines go to the log and to ``say``; cancelled or failed, nothing of it runs on."""
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=folder,
        env=_environment(),
        start_new_session=True,
        pass_fds=[lock],
        limit=1 << 20,
    )
    try:
        if process.stdout is None:
            raise _StepFailed("has no output")
        async for raw in process.stdout:
            line = raw.decode(errors="replace").rstrip()
            if line:
                log.append(line)
                say(line)
        code = await process.wait()
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await asyncio.shield(process.wait())
    if code != 0:
        raise _StepFailed(f"failed: {Path(argv[0]).name} ended with exit code {code}")
