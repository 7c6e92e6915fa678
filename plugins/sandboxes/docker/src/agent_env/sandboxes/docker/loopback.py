"""Runs inside a container, behind `mux` and before `codehost`: listeners on loopback that lead to the server's side.

The standard library only, nothing newer than 3.7. Everything happens in one thread, driven by one selector.
"""

# ruff: noqa: PTH115, PTH123, PTH208, PLR2004
from __future__ import annotations

import contextlib
import os
import selectors
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_env.sandboxes.docker.mux import DATA, EOF, OPEN, RESET, Mux  # noqa: TC004

PIECE = 65536
MOST_OPEN = 128


class Carried:
    """A connection that code made here, and its stream."""

    def __init__(self, sock: socket.socket, stream: int) -> None:
        self.sock, self.stream = sock, stream
        self.data = bytearray()
        self.no_more = self.read_all = self.shut = False


class Ways:
    """One listener for each way; ``below`` tells the processes that may use them."""

    def __init__(
        self, client: socket.socket, count: int, selector: selectors.BaseSelector, below: Callable[[], list[int]]
    ) -> None:
        self.mux = Mux()
        self.gone = False
        self._client, self._selector, self._below = client, selector, below
        self._out = bytearray()
        self._open: dict[int, Carried] = {}
        client.setblocking(False)
        self._watch(client, selectors.EVENT_READ, self._client_ready)
        self.listeners = [socket.socket() for _ in range(count)]
        for listener in self.listeners:
            listener.bind(("127.0.0.1", 0))
            listener.listen(64)
            listener.setblocking(False)
        self._checks = bool(self.listeners) and sees_owners(self.listeners[0])
        self._listen()

    def urls(self) -> list[str]:
        """Where each way begins."""
        return [f"http://127.0.0.1:{listener.getsockname()[1]}" for listener in self.listeners]

    def _watch(self, sock: socket.socket, wanted: int, ready: Callable[[int], None]) -> None:
        known = sock in self._selector.get_map()
        if wanted and known:
            self._selector.modify(sock, wanted, ready)
        elif wanted:
            self._selector.register(sock, wanted, ready)
        elif known:
            self._selector.unregister(sock)

    # -- the client's connection --------------------------------------------------------------------------------------

    def _client_ready(self, mask: int) -> None:
        try:
            if mask & selectors.EVENT_READ:
                data = self._client.recv(PIECE)
                if not data:
                    self.gone = True
                    return
                for kind, stream, content in self.mux.feed(data):
                    self._came(kind, stream, content)
        except BlockingIOError:
            pass
        except (OSError, ValueError):
            self.gone = True
            return
        self.flush()

    def _came(self, kind: int, stream: int, content: bytes) -> None:
        if kind == OPEN:
            self.mux.reset(stream)
            return
        one = self._open.get(stream)
        if one is None:
            return
        if kind == DATA:
            one.data += content
        elif kind == EOF:
            one.no_more = True
        elif kind == RESET:
            self._end(one)
            return
        self._carry(one, 0)

    def flush(self) -> None:
        """Send what waits, as far as the client takes it."""
        self._out += self.mux.take()
        try:
            while self._out:
                del self._out[: self._client.send(self._out[:PIECE])]
        except BlockingIOError:
            pass
        except OSError:
            self.gone = True
            return
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._out else 0)
        self._watch(self._client, wanted, self._client_ready)

    def answer(self, data: bytes) -> None:
        """Close all ways and send the result, the last frame."""
        self._selector.unregister(self._client)
        for one in list(self._open.values()):
            self._end(one)
        for listener in self.listeners:
            listener.close()
        if not self.gone:
            self.mux.result(data)
            self._out += self.mux.take()
            self._client.setblocking(True)
            with contextlib.suppress(OSError):
                self._client.sendall(self._out)

    # -- connections --------------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        """Accept while there is room."""
        wanted = selectors.EVENT_READ if len(self._open) < MOST_OPEN else 0
        for way, listener in enumerate(self.listeners):
            self._watch(listener, wanted, self._accepter(way))

    def _accepter(self, way: int) -> Callable[[int], None]:
        return lambda _: self._accept(way)

    def _accept(self, way: int) -> None:
        try:
            sock, peer = self.listeners[way].accept()
        except OSError:
            return
        if self._checks and not self._ours(peer[1], self.listeners[way].getsockname()[1]):
            sock.close()
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        one = Carried(sock, self.mux.open(way))
        self._open[one.stream] = one
        self._listen()
        self._carry(one, 0)
        self.flush()

    def _ours(self, theirs: int, own: int) -> bool:
        """Whether the other end of a connection belongs to a process of this code, not of another verification."""
        wanted = {f"socket:[{inode}]" for inode in inodes(theirs, own)}
        for pid in self._below():
            with contextlib.suppress(OSError):
                for fd in os.listdir(f"/proc/{pid}/fd"):
                    with contextlib.suppress(OSError):
                        if os.readlink(f"/proc/{pid}/fd/{fd}") in wanted:
                            return True
        return False

    def _carry(self, one: Carried, mask: int) -> None:
        """Move what can be moved."""
        try:
            if mask & selectors.EVENT_READ and not one.read_all:
                room = self.mux.room(one.stream)
                if room:
                    self._read(one, min(room, PIECE))
            while one.data:
                sent = one.sock.send(one.data[:PIECE])
                del one.data[:sent]
                self.mux.taken(one.stream, sent)
        except BlockingIOError:
            pass
        except OSError:
            self._end(one)
            return
        if one.no_more and not one.data and not one.shut:
            one.shut = True
            with contextlib.suppress(OSError):
                one.sock.shutdown(socket.SHUT_WR)
        if one.shut and one.read_all:
            self._end(one)
            return
        wanted = selectors.EVENT_WRITE if one.data else 0
        if not one.read_all and self.mux.room(one.stream):
            wanted |= selectors.EVENT_READ
        self._watch(one.sock, wanted, lambda ready: self._moved(one, ready))

    def _moved(self, one: Carried, mask: int) -> None:
        if one.stream in self._open:  # it may have ended since the selector saw it
            self._carry(one, mask)
            self.flush()

    def _read(self, one: Carried, most: int) -> None:
        data = one.sock.recv(most)
        if data:
            self.mux.write(one.stream, data)
        else:
            one.read_all = True
            self.mux.write_eof(one.stream)

    def _end(self, one: Carried) -> None:
        self._watch(one.sock, 0, self._nothing)
        self.mux.reset(one.stream)
        one.sock.close()
        self._open.pop(one.stream, None)
        self._listen()

    def _nothing(self, mask: int) -> None:
        """Never called."""


def inodes(local: int, remote: int, state: str = "") -> list[str]:
    """Inodes of the TCP sockets with these ports, as this network's list has them."""
    found: list[str] = []
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError, IndexError, ValueError), open("/proc/self/net/" + name) as file:
            for line in file.read().splitlines()[1:]:
                fields = line.split()
                ports = [int(fields[place].rpartition(":")[2], 16) for place in (1, 2)]
                if ports == [local, remote] and state in {"", fields[3]}:
                    found.append(fields[9])
    return found


def sees_owners(listener: socket.socket) -> bool:
    """Whether this system tells whose a connection is."""
    own = str(os.fstat(listener.fileno()).st_ino)
    return own in inodes(listener.getsockname()[1], 0, "0A")
