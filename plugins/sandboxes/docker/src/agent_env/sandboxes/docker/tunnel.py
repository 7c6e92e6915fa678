"""A unix socket on this machine whose connections go through the connection to the engine into a container."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from agent_env.sandboxes.docker import execs
from agent_env.sandboxes.docker.failures import EngineError
from agent_env.sandboxes.docker.hijack import STDERR

if TYPE_CHECKING:
    from agent_env.sandboxes.docker.engine import Engine
    from agent_env.sandboxes.docker.hijack import Hijacked

RELAY = (Path(__file__).parent / "relay.py").read_text(encoding="utf-8")
_CHUNK = 65536


def relay_argv(python: str, *arguments: str) -> list[str]:
    """The relay as a command of a container."""
    return [python, "-I", "-S", "-c", RELAY, *arguments]


class Tunnel:
    """Listens while it is open. Every connection is one command in the container."""

    def __init__(self, engine: Engine, container: str, path: str, port: int, python: str) -> None:
        self.path = path
        self._engine = engine
        self._container = container
        self._argv = relay_argv(python, "pipe", str(port))
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Start to listen."""
        before = os.umask(0o177)
        try:
            self._server = await asyncio.start_unix_server(self._accepted, self.path)
        finally:
            os.umask(before)

    async def close(self) -> None:
        """Stop, with every connection."""
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(set(self._tasks))
        with contextlib.suppress(OSError):
            os.unlink(self.path)  # noqa: PTH108

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._server is None:
            writer.transport.abort()
            return
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer), name="docker tunnel")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # Also of a task that was cancelled before its first step.
        task.add_done_callback(lambda _: writer.transport.abort())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sink = _Downwards(writer)
        connection: Hijacked | None = None
        try:
            exec_id = await execs.create(self._engine, self._container, self._argv, stdin=True)
            connection = await self._engine.hijack(f"exec/{exec_id}/start", {"Detach": False, "Tty": False}, sink)
            sink.connection = connection
            upwards = asyncio.create_task(_upwards(reader, connection), name="docker tunnel up")
            try:
                await sink.ended.wait()
            finally:
                upwards.cancel()
                await asyncio.wait([upwards])
                if not upwards.cancelled():
                    upwards.exception()
        except (EngineError, OSError):
            writer.transport.abort()
        finally:
            if connection is not None:
                connection.close()
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


async def _upwards(reader: asyncio.StreamReader, connection: Hijacked) -> None:
    while data := await reader.read(_CHUNK):
        connection.write(data)
        await connection.drain()
    connection.write_eof()


class _Downwards:
    """Passes the command's output on, and holds it while the client does not read."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._holding: asyncio.Task[None] | None = None
        self.connection: Hijacked | None = None
        self.ended = asyncio.Event()

    def data(self, stream: int, data: bytes) -> None:
        if stream == STDERR or self._writer.is_closing():
            return
        self._writer.write(data)
        full = self._writer.transport.get_write_buffer_size() > _CHUNK
        if full and self.connection is not None and (self._holding is None or self._holding.done()):
            self.connection.pause()
            self._holding = asyncio.get_running_loop().create_task(self._release())

    async def _release(self) -> None:
        with contextlib.suppress(OSError):
            await self._writer.drain()
        if self.connection is not None:
            self.connection.resume()

    def end(self) -> None:
        self.ended.set()
