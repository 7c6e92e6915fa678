"""Runs inside a container, with whatever Python its image has: the standard library only, nothing newer than 3.7.

``serve PATH PORT`` listens on a unix socket and leads every connection to a TCP port on the container's loopback;
``pipe PORT`` leads its own stdin and stdout there.
"""

from __future__ import annotations

import os
import selectors
import socket
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    Pairs = dict[socket.socket, tuple["Half", "Half"]]

CHUNK = 65536
MOST = 1 << 20


class Half:
    """One direction of a connection."""

    def __init__(self, source: socket.socket, sink: socket.socket) -> None:
        self.source, self.sink = source, sink
        self.data = bytearray()
        self.ended = self.shut = False


def serve(path: str, port: int) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path + "~")
    os.chmod(path + "~", 0o666)  # noqa: PTH101, S103 - its folder lets nobody else in
    listener.listen(256)
    os.rename(path + "~", path)  # noqa: PTH104
    listener.setblocking(False)
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    pairs: Pairs = {}
    while True:
        for key, mask in selector.select():
            if key.fileobj is listener:
                accept(listener, port, selector, pairs)
            elif isinstance(key.fileobj, socket.socket) and key.fileobj in pairs:
                forward(key.fileobj, mask, selector, pairs)


def accept(listener: socket.socket, port: int, selector: selectors.BaseSelector, pairs: Pairs) -> None:
    try:
        near, _ = listener.accept()
    except OSError:
        return
    try:
        far = socket.create_connection(("127.0.0.1", port))
    except OSError:
        near.close()
        return
    far.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    halves = (Half(near, far), Half(far, near))
    for sock in (near, far):
        sock.setblocking(False)
        pairs[sock] = halves
        selector.register(sock, selectors.EVENT_READ)


def forward(sock: socket.socket, mask: int, selector: selectors.BaseSelector, pairs: Pairs) -> None:
    halves = pairs[sock]
    try:
        for half in halves:
            if mask & selectors.EVENT_READ and half.source is sock and not half.ended and len(half.data) < MOST:
                read(half)
            write(half)
    except OSError:
        close(halves, selector, pairs)
        return
    if halves[0].shut and halves[1].shut:
        close(halves, selector, pairs)
        return
    for one, other in (halves, halves[::-1]):
        wanted = 0
        if not one.ended and len(one.data) < MOST:
            wanted |= selectors.EVENT_READ
        if other.data:
            wanted |= selectors.EVENT_WRITE
        watch(one.source, wanted, selector)


def read(half: Half) -> None:
    try:
        data = half.source.recv(CHUNK)
    except BlockingIOError:
        return
    half.ended = not data
    half.data += data


def write(half: Half) -> None:
    if half.data:
        try:
            sent = half.sink.send(half.data)
        except BlockingIOError:
            return
        del half.data[:sent]
    if half.ended and not half.data and not half.shut:
        half.shut = True
        half.sink.shutdown(socket.SHUT_WR)


def watch(sock: socket.socket, wanted: int, selector: selectors.BaseSelector) -> None:
    known = sock in selector.get_map()
    if wanted and known:
        selector.modify(sock, wanted)
    elif wanted:
        selector.register(sock, wanted)
    elif known:
        selector.unregister(sock)


def close(halves: tuple[Half, Half], selector: selectors.BaseSelector, pairs: Pairs) -> None:
    for half in halves:
        watch(half.source, 0, selector)
        pairs.pop(half.source, None)
        half.source.close()


def pipe(port: int) -> None:
    import threading

    sock = socket.create_connection(("127.0.0.1", port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def upwards() -> None:
        try:
            while True:
                data = os.read(0, CHUNK)
                if not data:
                    break
                sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    threading.Thread(target=upwards, daemon=True).start()
    try:
        while True:
            data = sock.recv(CHUNK)
            if not data:
                break
            while data:
                data = data[os.write(1, data) :]
    except OSError:
        pass
    os._exit(0)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2], int(sys.argv[3]))
    else:
        pipe(int(sys.argv[2]))
