"""An engine behind ssh://: one `ssh` process that leads a unix socket here to the engine's socket there.

OpenSSH does it with the user's own configuration, keys and agent. A connection of its own for every request would
exceed what servers allow at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
from pathlib import Path
from urllib.parse import unquote, urlsplit

from agent_env.errors import SandboxUnavailable
from agent_env.sandboxes.docker.failures import NAME

_SOCKET = "/var/run/docker.sock"
_START_TIMEOUT = 40.0
_END_TIMEOUT = 5.0
_POLL = 0.03
_NOTICED_S = 0.5
_MOST_WORDS = 2000
_OPTIONS = {
    "BatchMode": "yes",
    "ConnectTimeout": "20",
    "ControlPath": "none",
    "ExitOnForwardFailure": "yes",
    "ServerAliveCountMax": "3",
    "ServerAliveInterval": "15",
    "StreamLocalBindMask": "0177",
}


def ssh_command(url: str, local: str) -> list[str]:
    """The command for ``ssh://[user@]host[:port][/path/of/docker.sock]``.

    Raises:
        SandboxUnavailable: the address names no host.
    """
    to = urlsplit(url)
    if not to.hostname or to.hostname.startswith("-") or (to.username or "").startswith("-"):
        raise SandboxUnavailable(f"{url} names no host; write ssh://user@host", provider=NAME, retryable=False)
    if to.password:
        raise SandboxUnavailable(
            f"the address ssh://…@{to.hostname} has a password in it, which ssh does not take; use a key or an agent",
            provider=NAME,
            retryable=False,
        )
    options = [word for name, value in _OPTIONS.items() for word in ("-o", f"{name}={value}")]
    port = ["-p", str(to.port)] if to.port else []
    user = ["-l", unquote(to.username)] if to.username else []
    path = unquote(to.path) if to.path not in {"", "/"} else _SOCKET
    # `cat` ends with its stdin, and ssh with it, also when this process is killed.
    return ["ssh", "-T", *options, *port, *user, "-L", f"{local}:{path}", "--", to.hostname, "cat"]


class Forward:
    """Connections to `path` reach the engine. It starts when it is first needed, and again after ssh has ended."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._pin = -1
        self._process: asyncio.subprocess.Process | None = None
        self._words: asyncio.Task[str] | None = None
        self._lock = asyncio.Lock()
        self._closed = False

    @property
    def path(self) -> str:
        """The socket: without a name in the file system, so that nothing is left and nobody else finds it."""
        return f"/proc/{os.getpid()}/fd/{self._pin}"

    async def ended(self) -> bool:
        """Whether a connection that was just refused was so because ssh has ended: then it is worth another try."""
        process = self._process
        if process is None:
            return not self._closed
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_NOTICED_S):
                await process.wait()
        return process.returncode is not None

    async def ready(self) -> None:
        """It leads there.

        Raises:
            SandboxUnavailable: ssh says no, or is not here.
        """
        if _lives(self._process):
            return
        async with self._lock:
            if self._closed or _lives(self._process):
                return
            folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="ae-ssh-"))
            try:
                await self._start(folder / "s")
            finally:
                await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def _start(self, local: Path) -> None:
        try:
            process = await asyncio.create_subprocess_exec(
                *ssh_command(self._url, str(local)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise self._unavailable(f"the command ssh cannot be run: {error}") from error
        words = self._words = asyncio.create_task(_words(process), name="docker ssh")
        try:
            async with asyncio.timeout(_START_TIMEOUT):
                while not _is_there(local):  # noqa: ASYNC110 - another process makes it
                    if process.returncode is not None:
                        raise self._unavailable((await words).strip() or f"ssh ended with code {process.returncode}")
                    await asyncio.sleep(_POLL)
            pin = os.open(local, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        except BaseException as error:
            await asyncio.shield(_end(process))
            if isinstance(error, TimeoutError):
                raise self._unavailable(f"ssh was not ready after {_START_TIMEOUT:g} s") from error
            raise
        if self._pin < 0:
            self._pin = pin
        else:  # the path stays the same
            os.dup2(pin, self._pin, inheritable=False)
            os.close(pin)
        self._process = process

    def _unavailable(self, why: str) -> SandboxUnavailable:
        return SandboxUnavailable(f"the Docker engine at {self._url}: {why}", provider=NAME)

    async def close(self) -> None:
        """End it. Idempotent."""
        self._closed = True
        async with self._lock:
            process, self._process = self._process, None
            pin, self._pin = self._pin, -1
            if process is not None:
                await _end(process)
            if self._words is not None:
                self._words.cancel()
                await asyncio.wait([self._words])
            if pin >= 0:
                os.close(pin)


def _lives(process: asyncio.subprocess.Process | None) -> bool:
    """Whether it runs. The kernel is asked: asyncio hears of an end later, and requests would fail meanwhile."""
    if process is None or process.returncode is not None:
        return False
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ChildProcessError:
        return False


def _is_there(path: Path) -> bool:
    return path.is_socket()


async def _words(process: asyncio.subprocess.Process) -> str:
    """What ssh says; read to the end, so that it never waits for a reader."""
    said = b""
    while process.stderr is not None and (data := await process.stderr.read(4096)):
        said = (said + data)[-_MOST_WORDS:]
    return said.decode(errors="replace")


async def _end(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(_END_TIMEOUT):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    if process.stdin is not None:
        process.stdin.close()
