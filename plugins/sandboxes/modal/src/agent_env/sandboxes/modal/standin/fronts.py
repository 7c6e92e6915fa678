"""What listens for a sandbox's server on this machine: the proxy of connect tokens, and TLS tunnels."""

from __future__ import annotations

import asyncio
import contextlib
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ssl
    from collections.abc import Coroutine

    from agent_env.sandboxes.modal.standin.boxes import Box
    from agent_env.sandboxes.modal.standin.faults import Faults

_TOKEN = re.compile(rb"^authorization:\s*bearer\s+(\S+)\s*$", re.IGNORECASE | re.MULTILINE)
_CHUNK = 1 << 16


def _answer(status: str) -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()


class Front:
    """One listener for one sandbox; without ``tokens`` everybody is let in."""

    def __init__(self, box: Box, faults: Faults, tokens: set[str] | None, tls: ssl.SSLContext | None = None) -> None:
        self.port = 0
        self.tokens = tokens
        self._box = box
        self._faults = faults
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self._tls, limit=1 << 20)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop."""
        if self._server is not None:
            self._server.close()
        for task in self._open:
            task.cancel()
        if self._open:
            await asyncio.wait(self._open)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._open.add(task)
            task.add_done_callback(self._open.discard)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._lead(reader, writer)
        finally:
            writer.close()

    async def _lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = b""
        if self.tokens is not None:
            head = await reader.readuntil(b"\r\n\r\n")
            found = _TOKEN.search(head)
            known = found is not None and found[1].decode() in self.tokens and not self._faults.no_connect_tokens
            if not known:
                writer.write(_answer("401 Unauthorized"))
                return
        try:
            there, back = await asyncio.open_unix_connection(self._box.socket)
        except OSError:
            if self.tokens is not None:
                writer.write(_answer("502 Bad Gateway"))
            return
        counted = self.tokens is None  # only tunnels keep a sandbox from being idle
        self._box.connections += counted
        try:
            back.write(head)
            await _first_to_end(_pipe(reader, back), _pipe(there, writer))
        finally:
            self._box.connections -= counted
            back.close()


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK):
        writer.write(data)
        await writer.drain()


async def _first_to_end(*works: Coroutine[Any, Any, None]) -> None:
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
