"""The client of `bench/wire.py`: a bare WebSocket, so that the server is what is measured.

Reads one JSON object from stdin: ``{"port", "mode": "episodes" | "idle", "sessions", "seconds", "reset"}``.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import resource
import statistics
import struct
import sys
import time
from typing import Any

NO_FILES = min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], 65_536)
RESET = b'{"type":"reset","data":{}}'
STEPS = (
    b'{"type":"step","data":{"type":"list_tools"}}',
    b'{"type":"step","data":{"type":"call_tool","tool_name":"add","arguments":{"a":2,"b":3}}}',
    b'{"type":"step","data":{"type":"call_tool","tool_name":"end_turn","arguments":{"response":"done"}}}',
)
MASK = b"\x00\x00\x00\x00"  # masking with zeros is legal and costs the client nothing


class Socket:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def open(cls, port: int) -> Socket:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 16)
        key = base64.b64encode(os.urandom(16)).decode()
        writer.write(
            f"GET /ws HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        head = await reader.readuntil(b"\r\n\r\n")
        if b" 101 " not in head[:20]:
            raise ConnectionError(head.decode(errors="replace"))
        return cls(reader, writer)

    async def ask(self, payload: bytes) -> bytes:
        size = len(payload)
        head = struct.pack("!BB", 0x81, 0x80 | size) if size < 126 else struct.pack("!BBH", 0x81, 0xFE, size)
        self.writer.write(head + MASK + payload)
        return await self.read()

    async def read(self) -> bytes:
        while True:
            first, second = await self.reader.readexactly(2)
            length = second & 0x7F
            if length == 126:
                (length,) = struct.unpack("!H", await self.reader.readexactly(2))
            elif length == 127:
                (length,) = struct.unpack("!Q", await self.reader.readexactly(8))
            body = await self.reader.readexactly(length)
            if first & 0x0F == 0x1:
                if b'"error","data"' in body:
                    raise ConnectionError(body.decode()[:300])
                return body
            if first & 0x0F == 0x8:
                raise ConnectionError(f"closed: {body!r}")

    async def close(self) -> None:
        self.writer.write(struct.pack("!BB", 0x88, 0x82) + MASK + b"\x03\xe8")
        with contextlib.suppress(OSError):
            await self.reader.read()
        self.writer.close()


async def episode(port: int) -> None:
    socket = await Socket.open(port)
    await socket.ask(RESET)
    for step in STEPS:
        await socket.ask(step)
    await socket.close()


async def episodes(port: int, sessions: int, seconds: float) -> dict[str, Any]:
    times: list[float] = []
    end = time.perf_counter() + seconds

    async def player() -> None:
        while True:
            began = time.perf_counter()
            await episode(port)
            times.append(time.perf_counter() - began)
            if time.perf_counter() >= end:
                return

    began = time.perf_counter()
    await asyncio.gather(*(player() for _ in range(sessions)))
    wall = time.perf_counter() - began
    times.sort()
    return {
        "episodes": len(times),
        "wall": wall,
        "p50_ms": statistics.median(times) * 1000,
        "p95_ms": times[int(len(times) * 0.95)] * 1000,
    }


async def idle(port: int, sessions: int, *, reset: bool) -> None:
    """Open sessions, say so, and hold them until stdin ends."""
    sockets: list[Socket] = []
    began = time.perf_counter()
    for _ in range(0, sessions, 50):
        opened = await asyncio.gather(*(Socket.open(port) for _ in range(min(50, sessions - len(sockets)))))
        sockets += opened
        if reset:
            await asyncio.gather(*(socket.ask(RESET) for socket in opened))
    print(json.dumps({"seconds": time.perf_counter() - began}), flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    for socket in sockets:
        socket.writer.transport.abort()


def main() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (NO_FILES, NO_FILES))
    task = json.loads(sys.stdin.readline())
    if task["mode"] == "episodes":
        print(json.dumps(asyncio.run(episodes(task["port"], task["sessions"], task["seconds"]))))
    else:
        asyncio.run(idle(task["port"], task["sessions"], reset=task["reset"]))


if __name__ == "__main__":
    main()
