"""Messages between the server and a keeper: one JSON object per datagram of a SEQPACKET socket, with descriptors."""

from __future__ import annotations

import array
import json
import socket
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Sequence

LIMIT = 190_000
"""Most bytes of a message: below the kernel's default for a socket's send buffer."""

MAX_FDS = 8


def encode(message: dict[str, Any]) -> bytes:
    """The datagram of a message.

    Raises:
        ValueError: larger than `LIMIT`.
    """
    data = json.dumps(message, separators=(",", ":")).encode()
    if len(data) > LIMIT:
        raise ValueError(f"a message of {len(data)} bytes is too large (most: {LIMIT})")
    return data


def send(sock: socket.socket, data: bytes, fds: Sequence[int] = ()) -> None:
    """Send one datagram whole; raises BlockingIOError when a non-blocking socket is full."""
    if fds:
        rights = array.array("i", fds).tobytes()
        sock.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
    else:
        sock.send(data)


def receive(sock: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """The next message and its descriptors; None at the end of the connection."""
    size = array.array("i").itemsize
    data, ancillary, _, _ = sock.recvmsg(LIMIT + 1, socket.CMSG_SPACE(MAX_FDS * size), socket.MSG_CMSG_CLOEXEC)
    fds = array.array("i")
    for level, kind, raw in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(raw[: len(raw) - len(raw) % size])
    if not data:
        return None
    return cast("dict[str, Any]", json.loads(data)), list(fds)
