"""Running an application of `build_app` with uvicorn: limits, signals and an orderly end.

`run` is the whole program (``agentenv serve``); `running_server` is a server inside a program that goes on, on the
same event loop::

    async with running_server(build_app("gridsim")) as url:
        ...
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import threading
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from agent_env.errors import AgentEnvError
from agent_env.openenv.extra import without_server
from agent_env.openenv.listening import listen
from agent_env.openenv.open_files import allow_many_files
from agent_env.openenv.security import warn_if_open

try:
    import uvicorn
except ModuleNotFoundError as error:
    raise without_server(error) from error

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncGenerator, Callable, Generator

    from agent_env.openenv.server.hub import Hub
    from fastapi import FastAPI

logger = logging.getLogger("agent_env.openenv")

PING_INTERVAL_S = 20.0
PING_TIMEOUT_S = 60.0
"""A client that answers no ping for this long is gone; trainers block their event loops for a while."""

_BACKLOG = 4096


class _Server(uvicorn.Server):
    """uvicorn without its own signal handlers; requests that run are given up before it waits for them."""

    def __init__(self, config: uvicorn.Config, hub: Hub) -> None:
        super().__init__(config)
        self.hub = hub
        self._starting: asyncio.Task[None] | None = None

    async def start_hub(self) -> bool:
        """Start what is served; `False` when `stop` ended that, for a sandbox provider may need minutes to start."""
        if self.should_exit:
            return False
        self._starting = asyncio.get_running_loop().create_task(self.hub.start(), name="start what is served")
        try:
            await self._starting
        except asyncio.CancelledError:
            if not self.should_exit or not self._starting.cancelled():
                raise
            logger.info("stopped before it had started")
            return False
        return True

    def stop(self) -> None:
        """What SIGINT and SIGTERM do; the second one does not wait for what is orderly."""
        if self.should_exit:
            self.force_exit = True
            self.hub.hurry()
        self.should_exit = True
        if self._starting is not None:
            self._starting.cancel()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.hub.begin_stop()
        await super().shutdown(sockets)
        if self.force_exit:
            # uvicorn leaves that out then, and the task that waits for it would end with a traceback in the log.
            await self.lifespan.shutdown()


def run(
    app: FastAPI,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    uds: str | Path | None = None,
    started: Callable[[str], None] | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM, then tear down within the application's deadline; a second signal cuts it short.

    Args:
        app: what `build_app` made.
        host: address to listen on.
        port: port; 0 picks a free one.
        uds: path of a unix socket to listen on instead.
        started: called with the server's URL once it answers.

    Raises:
        UsageError: the address cannot be used.
        AgentEnvError: the engine could not start.
    """
    try:
        import uvloop
    except ImportError:
        factory = None
    else:
        factory = uvloop.new_event_loop
    allow_many_files()
    _settle_memory()
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(serve(app, host=host, port=port, uds=uds, started=started))


def _settle_memory() -> None:
    """What was imported stays: the collector need not look at it again, nor look every 700 objects."""
    import gc

    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


async def serve(
    app: FastAPI,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    uds: str | Path | None = None,
    started: Callable[[str], None] | None = None,
) -> None:
    """As `run`, on the running event loop. Signals are caught in the main thread only."""
    loop = asyncio.get_running_loop()
    main = threading.current_thread() is threading.main_thread()
    server, listener, url = _prepare(app, host, port, uds)
    if uds is None:
        warn_if_open(host, "set" if app.state.protected else None)

    signals = (signal.SIGINT, signal.SIGTERM) if main else ()
    for number in signals:
        loop.add_signal_handler(number, server.stop)
    try:
        serving = loop.create_task(_serve(server, listener))
        try:
            if await _until_started(server, serving):
                logger.info("listening on %s", url)
                if started is not None:
                    started(url)
                await asyncio.shield(serving)
        finally:
            await _ended(server, serving)
    finally:
        for number in signals:
            loop.remove_signal_handler(number)
        _remove(uds)


@asynccontextmanager
async def running_server(
    app: FastAPI, *, host: str = "127.0.0.1", port: int = 0, uds: str | Path | None = None
) -> AsyncGenerator[str, None]:
    """A server on the running event loop; gives its URL, ends when left. Signals stay the program's own.

    Raises:
        UsageError: the address cannot be used.
        AgentEnvError: the engine could not start.
    """
    server, listener, url = _prepare(app, host, port, uds)
    serving = asyncio.get_running_loop().create_task(_serve(server, listener))
    try:
        await _until_started(server, serving)
        yield url
    finally:
        await _ended(server, serving)
        _remove(uds)


def _prepare(app: FastAPI, host: str, port: int, uds: str | Path | None) -> tuple[_Server, socket.socket, str]:
    hub: Hub = app.state.hub
    config = uvicorn.Config(
        cast("Any", app),
        log_config=None,
        log_level="warning",
        access_log=False,
        lifespan="on",
        backlog=_BACKLOG,
        ws_max_size=hub.max_message_bytes,
        ws_per_message_deflate=False,
        ws_ping_interval=PING_INTERVAL_S,
        ws_ping_timeout=PING_TIMEOUT_S,
        timeout_graceful_shutdown=max(1, int(hub.shutdown_deadline / 2)),
        server_header=False,
        proxy_headers=False,
    )
    listener, url = listen(host, port, uds)
    return _Server(config, hub), listener, url


async def _serve(server: _Server, listener: socket.socket) -> None:
    try:
        # Here rather than in uvicorn's lifespan, which would only log why it failed.
        if await server.start_hub():
            await server.serve(sockets=[listener])
    except SystemExit:
        raise AgentEnvError("the server could not start; the reason is logged above") from None
    finally:
        listener.close()
        await server.hub.stop()


async def _until_started(server: _Server, serving: asyncio.Task[None]) -> bool:
    """Whether it answers now; else it was stopped before, and has ended. Raises why it could not start."""
    while not server.started and not serving.done():
        await asyncio.wait([serving], timeout=0.01)
    if serving.done():
        await serving
    return server.started


async def _ended(server: _Server, serving: asyncio.Task[None]) -> None:
    """End it. That must be reached even when we are cancelled: envs would be left running."""
    if not server.should_exit:
        server.stop()
    while not serving.done():
        try:
            await asyncio.shield(serving)
        except asyncio.CancelledError:
            server.force_exit = True
            if serving.cancelled():
                break
            await asyncio.wait([serving])
            raise


def _remove(uds: str | Path | None) -> None:
    if uds is not None:
        Path(uds).unlink(missing_ok=True)
