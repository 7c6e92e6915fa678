"""Serving one env object until the process is told to end.

Sync code of an env runs in the main thread, one call after the other, where it was constructed: libraries that are
bound to a thread (sqlite3, signal handlers, window systems) work, and no lock is needed. The event loop that answers
HTTP then lives in a second thread, so that the env answers while a tool runs. An env with async methods only needs no
second thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import signal
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_env.env.app import EnvApp
from agent_env.env.base import Env
from agent_env.env.http.server import HttpServer
from agent_env.env.running import run_here
from agent_env.env.sockets import listen_tcp, listen_uds
from agent_env.env.spec import spec_of
from agent_env.errors import UsageError

if TYPE_CHECKING:
    from types import FrameType, ModuleType

    from agent_env.env.running import Outcome

DEFAULT_HOST = "0.0.0.0"
DEFAULT_PORT = 18765
_GRACE = 5.0

_Work = tuple[Callable[[], "Outcome"], "asyncio.Future[Outcome]"]


def find_env(module: ModuleType) -> type[Env]:
    """The env class of a module, checked: the one `Env` subclass that it defines, else the one that it imports.

    Raises:
        UsageError: there is none, there are several, or it cannot be served.
    """
    found = [
        value
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, Env) and value is not Env and not name.startswith("_")
    ]
    found = list(dict.fromkeys(found))
    own = [cls for cls in found if cls.__module__ == module.__name__] or found
    leaves = [cls for cls in own if not any(other is not cls and issubclass(other, cls) for other in own)]
    if len(leaves) != 1:
        names = ", ".join(cls.__name__ for cls in leaves) or "none"
        raise UsageError(f"{module.__name__}: expected one subclass of agent_env.env.Env, found {names}")
    spec_of(leaves[0])
    return leaves[0]


def serve_class(cls: type[Env]) -> None:
    """Make one instance and serve it where the environment variables say.

    Raises:
        UsageError: the class or an address cannot be used.
    """
    spec_of(cls)
    uds = os.environ.get("AGENTENV_UDS")
    sock = listen_uds(uds) if uds else listen_tcp(os.environ.get("MCP_HOST") or DEFAULT_HOST, _port())
    try:
        env = cls()
    except BaseException:
        _drop(sock, _uds_path(sock))
        raise
    serve_instance(env, sock=sock)


def serve_instance(
    env: Env,
    *,
    uds: str | Path | None = None,
    host: str | None = None,
    port: int | None = None,
    sock: socket.socket | None = None,
    ready: Callable[[], None] | None = None,
    grace: float = _GRACE,
) -> None:
    """Serve an env object until SIGTERM or SIGINT; safe to call in a forked child.

    Exactly one of ``uds``, ``host`` with ``port``, and ``sock`` says where.

    Args:
        env: the object; sync methods are called in this thread.
        uds: path of a unix socket to make.
        host: address to listen on.
        port: with ``host``.
        sock: a listening or bound socket; a unix socket's file is removed at the end.
        ready: called when requests are accepted.
        grace: seconds that running requests get at the end.

    Raises:
        UsageError: the env or the address cannot be used.
    """
    if sock is None:
        sock = listen_uds(uds) if uds is not None else listen_tcp(host or DEFAULT_HOST, port or 0)
    path = _uds_path(sock)
    try:
        _Process(env, sock, ready, grace).run()
    finally:
        _drop(sock, path)


class _Process:
    """The server of one env object in one process."""

    def __init__(self, env: Env, sock: socket.socket, ready: Callable[[], None] | None, grace: float) -> None:
        self._sock = sock
        self._ready = ready
        self._grace = grace
        self._work: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._has_sync = spec_of(type(env)).has_sync
        self._app = EnvApp(env, self._in_main if self._has_sync else run_here)
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._last_resort: threading.Timer | None = None
        self._error: BaseException | None = None

    def run(self) -> None:
        before = self._catch_signals()
        try:
            if self._has_sync:
                self._run_threaded()
            else:
                self._run_loop()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        if self._error is not None:
            raise self._error

    def _run_threaded(self) -> None:
        thread = threading.Thread(target=self._loop_thread, name="agentenv-server", daemon=True)
        thread.start()
        while (work := self._work.get()) is not None:
            call, future = work
            outcome = call()
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._loop.call_soon_threadsafe(_resolve, future, outcome)
        thread.join()

    def _loop_thread(self) -> None:
        # Signals belong to the main thread: one taken here would not wake it.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
        self._run_loop()
        self._work.put(None)

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        except BaseException as error:  # noqa: BLE001 - raised in the main thread
            self._error = error
        finally:
            asyncio.set_event_loop(None)
            self._loop.close()

    async def _serve(self) -> None:
        server = HttpServer(self._app.handle)
        await server.listen(self._sock)
        if self._ready is not None:
            self._ready()
        await self._stop.wait()
        await server.close(self._grace)
        await _end_tasks()

    def _in_main(self, call: Callable[[], Outcome]) -> asyncio.Future[Outcome]:
        future: asyncio.Future[Outcome] = self._loop.create_future()
        self._work.put((call, future))
        return future

    # -- signals --

    def _catch_signals(self) -> dict[int, Any]:
        if threading.current_thread() is not threading.main_thread():
            return {}
        return {number: signal.signal(number, self._on_signal) for number in (signal.SIGTERM, signal.SIGINT)}

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        """Runs in the main thread, perhaps in the middle of a tool."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._stop.set)
        # Code that does not come back must not keep the process, not even at the interpreter's own end.
        if self._last_resort is None:
            self._last_resort = threading.Timer(self._grace + 1.0, _leave)
            self._last_resort.daemon = True
            self._last_resort.start()


def _leave() -> None:
    sys.stderr.flush()
    os._exit(143)


def _resolve(future: asyncio.Future[Outcome], outcome: Outcome) -> None:
    if not future.done():
        future.set_result(outcome)


async def _end_tasks() -> None:
    """Cancel what the env's own code left running on the loop."""
    rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in rest:
        task.cancel()
    if rest:
        await asyncio.wait(rest, timeout=1.0)


def _port() -> int:
    raw = os.environ.get("MCP_PORT") or str(DEFAULT_PORT)
    if not raw.isdecimal() or int(raw) > 65535:
        raise UsageError(f"MCP_PORT must be a port number, not {raw!r}")
    return int(raw)


def _uds_path(sock: socket.socket) -> str:
    name: object = sock.getsockname() if sock.family == socket.AF_UNIX else ""
    return name if isinstance(name, str) else ""  # an abstract address has no file


def _drop(sock: socket.socket, path: str) -> None:
    """Close a socket and remove its file."""
    sock.close()
    if path:
        Path(path).unlink(missing_ok=True)
