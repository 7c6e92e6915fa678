"""Asking a server for its health path, without a client library."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket

_DRAIN_S = 0.25
_DRAIN_READS = 64
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})")


async def http_status(address: str | tuple[str, int], path: str, *, timeout: float) -> int | None:
    """HTTP status of a GET; None when nobody listens or what answers is no HTTP.

    Args:
        address: path of a unix socket, or host and port.
        path: the path to get.
        timeout: seconds.
    """
    loop = asyncio.get_running_loop()
    sock = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        async with asyncio.timeout(timeout):
            await loop.sock_connect(sock, address)
            head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\nConnection: close\r\n\r\n"
            await loop.sock_sendall(sock, head.encode())
            data = b""
            while len(data) < 12:
                more = await loop.sock_recv(sock, 4096)
                if not more:
                    break
                data += more
            # A server that is hung up on while it writes would log an error for every start.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_DRAIN_S):
                    for _ in range(_DRAIN_READS):
                        if not await loop.sock_recv(sock, 65536):
                            break
    except (OSError, TimeoutError):
        return None
    finally:
        sock.close()
    match = _STATUS.match(data)
    return int(match[1]) if match else None
