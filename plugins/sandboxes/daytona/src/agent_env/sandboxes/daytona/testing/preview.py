"""The stand-in's preview proxy: one address per machine and port, a token in a header, HTTP and WebSocket alike."""

from __future__ import annotations

import asyncio
import json
import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent_env.sandboxes.daytona.testing.machine import Machine

_HEADER = b"x-daytona-preview-token:"


class Preview:
    """Leads from a port of this host into a machine."""

    def __init__(self, machine: Machine, port: int) -> None:
        self.token = secrets.token_hex(12)
        self._machine = machine
        self._port = port
        self._server: asyncio.Server | None = None
        self._links: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """Where it listens."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def open(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=1 << 20)

    async def close(self) -> None:
        """Stop, and cut what is open."""
        if self._server is not None:
            self._server.close()
        self.cut()
        if self._links:
            await asyncio.wait(set(self._links))

    def cut(self) -> None:
        """Cut what is open."""
        for link in self._links:
            link.cancel()

    def expire(self) -> None:
        """The token is no good any more."""
        self.token = secrets.token_hex(12)
        self.cut()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = asyncio.ensure_future(self._serve(reader, writer))
        self._links.add(link)
        link.add_done_callback(self._links.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            tokens = [line for line in head.lower().split(b"\r\n") if line.startswith(_HEADER)]
            if not any(line.partition(b":")[2].strip() == self.token.encode() for line in tokens):
                await _refuse(writer, b"401 Unauthorized")
                return
            inner_reader, inner_writer = await self._machine.connect()
            try:
                inner_writer.write(json.dumps({"op": "connect", "port": self._port}).encode() + b"\n")
                if await inner_reader.readline() != b"ok\n":
                    await _refuse(writer, b"502 Bad Gateway")
                    return
                inner_writer.write(head)
                async with asyncio.TaskGroup() as group:
                    group.create_task(_pump(reader, inner_writer))
                    group.create_task(_pump(inner_reader, writer))
            finally:
                inner_writer.close()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        except asyncio.CancelledError:  # cut
            pass
        finally:
            writer.close()


async def _refuse(writer: asyncio.StreamWriter, status: bytes) -> None:
    writer.write(b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    await writer.drain()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    writer.close()
