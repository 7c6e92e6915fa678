"""From a unix socket to a TCP port inside a sandbox's network namespace."""

from __future__ import annotations

import ctypes
import os
import selectors
import socket
from typing import NoReturn

_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
_CHUNK = 65536
_MOST_PENDING = 1 << 20


def enter_network(pid: int) -> None:
    """Move this single-threaded process into the user and network namespaces of ``pid``.

    Raises:
        OSError: it may not, or the process is gone.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    kinds = 0
    for name, flag in (("user", _CLONE_NEWUSER), ("net", _CLONE_NEWNET)):
        if os.readlink(f"/proc/{pid}/ns/{name}") != os.readlink(f"/proc/self/ns/{name}"):  # noqa: PTH115
            kinds |= flag
    fd = os.pidfd_open(pid)
    try:
        if kinds and libc.setns(fd, kinds) != 0:
            code = ctypes.get_errno()
            raise OSError(code, f"cannot join the network of process {pid}: {os.strerror(code)}")
    finally:
        os.close(fd)


class _Half:
    """One direction: what was read from ``source`` and not yet written to ``sink``."""

    __slots__ = ("data", "ended", "shut", "sink", "source")

    def __init__(self, source: socket.socket, sink: socket.socket) -> None:
        self.source = source
        self.sink = sink
        self.data = bytearray()
        self.ended = False
        self.shut = False


class Relay:
    """Forwards every connection of a listening socket to a TCP port on loopback."""

    def __init__(self, listener: socket.socket, port: int) -> None:
        self._listener = listener
        self._port = port
        self._selector = selectors.DefaultSelector()
        self._pairs: dict[socket.socket, tuple[_Half, _Half]] = {}

    def run(self) -> NoReturn:
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        while True:
            for key, mask in self._selector.select():
                sock = key.fileobj
                if sock is self._listener:
                    self._accept()
                elif isinstance(sock, socket.socket) and sock in self._pairs:
                    self._serve(sock, mask)

    def _accept(self) -> None:
        try:
            near, _ = self._listener.accept()
        except OSError:
            return
        far = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        near.setblocking(False)
        far.setblocking(False)
        far.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A server whose backlog is full lets it wait; a refusal shows at the first write.
        far.connect_ex(("127.0.0.1", self._port))
        halves = (_Half(near, far), _Half(far, near))
        for sock in (near, far):
            self._pairs[sock] = halves
            self._selector.register(sock, selectors.EVENT_READ)

    def _serve(self, sock: socket.socket, mask: int) -> None:
        halves = self._pairs[sock]
        try:
            for half in halves:
                if mask & selectors.EVENT_READ and half.source is sock and len(half.data) < _MOST_PENDING:
                    self._read(half)
                self._write(half)
        except OSError:
            self._close(halves)
            return
        if all(half.shut for half in halves):
            self._close(halves)
            return
        for one, other in (halves, halves[::-1]):
            wanted = 0
            if not one.ended and len(one.data) < _MOST_PENDING:
                wanted |= selectors.EVENT_READ
            if other.data:
                wanted |= selectors.EVENT_WRITE
            self._watch(one.source, wanted)

    def _read(self, half: _Half) -> None:
        try:
            data = half.source.recv(_CHUNK)
        except BlockingIOError:
            return
        half.ended = not data
        half.data += data

    def _write(self, half: _Half) -> None:
        if half.data:
            try:
                sent = half.sink.send(half.data)
            except BlockingIOError:
                return
            del half.data[:sent]
        if half.ended and not half.data and not half.shut:
            half.shut = True
            half.sink.shutdown(socket.SHUT_WR)

    def _watch(self, sock: socket.socket, wanted: int) -> None:
        known = sock in self._selector.get_map()
        if wanted and known:
            self._selector.modify(sock, wanted)
        elif wanted:
            self._selector.register(sock, wanted)
        elif known:
            self._selector.unregister(sock)

    def _close(self, halves: tuple[_Half, _Half]) -> None:
        for half in halves:
            self._watch(half.source, 0)
            self._pairs.pop(half.source, None)
            half.source.close()
