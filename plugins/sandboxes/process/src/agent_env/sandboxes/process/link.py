"""The server's end of a keeper's socket, on the event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import TYPE_CHECKING, Any

from agent_env.sandboxes.process.keeper import wire

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

    from agent_env.sandboxes.process.cell import Cell


class Held:
    """A process that a keeper holds, as the server sees it. Futures never fail: None = the keeper was lost."""

    __slots__ = ("cell", "ended", "error", "exited", "expired", "id", "lost", "pid", "ready", "started")

    def __init__(self, identity: str, loop: asyncio.AbstractEventLoop) -> None:
        self.id = identity
        self.pid = 0
        self.error = ""
        self.expired = False
        self.lost = False
        self.cell: Cell | None = None
        self.started: asyncio.Future[bool] = loop.create_future()
        self.ready: asyncio.Future[None] = loop.create_future()
        self.exited: asyncio.Future[int | None] = loop.create_future()
        self.ended: asyncio.Future[None] = loop.create_future()

    def on_event(self, event: str, message: dict[str, Any]) -> bool:
        """Take in an event; True when nothing more will come."""
        if event == "started":
            self.pid = message["pid"]
            _resolve(self.started, True)
        elif event == "failed":
            self.error = message["error"]
            _resolve(self.started, False)
            _resolve(self.exited, None)
            _resolve(self.ended, None)
            return True
        elif event == "ready":
            _resolve(self.ready, None)
        elif event == "exit":
            _resolve(self.exited, message["code"])
        elif event == "expired":
            self.expired = not self.exited.done()
        elif event == "ended":
            _resolve(self.started, False)
            _resolve(self.exited, None)
            _resolve(self.ended, None)
            return True
        return False

    def on_lost(self) -> None:
        self.lost = True
        self.error = self.error or "the process that keeps it was lost"
        _resolve(self.started, False)
        _resolve(self.exited, None)
        _resolve(self.ended, None)


def _resolve(future: asyncio.Future[Any], value: object) -> None:
    if not future.done():
        future.set_result(value)


class Link:
    """Posts requests without waiting and hands events to what they are about."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._loop = asyncio.get_running_loop()
        self._held: dict[str, Held] = {}
        self._queue: deque[tuple[bytes, list[int]]] = deque()
        self.hello: asyncio.Future[dict[str, Any] | None] = self._loop.create_future()
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(sock, self._on_readable)

    @property
    def alive(self) -> bool:
        return not self.closed.done()

    def held(self, identity: str) -> Held:
        """Follow what carries this id."""
        held = Held(identity, self._loop)
        if self.alive:
            self._held[identity] = held
        else:
            held.on_lost()
        return held

    def held_by_id(self, identity: str) -> Held | None:
        """What carries this id and has not ended."""
        return self._held.get(identity)

    def forget(self, identity: str) -> None:
        self._held.pop(identity, None)

    def post(self, message: dict[str, Any], fds: Sequence[int] = ()) -> None:
        """Send a request; ``fds`` stay the caller's. On a closed link nothing is sent: everything held is lost anyway.

        Raises:
            ValueError: the message is too large.
        """
        data = wire.encode(message)
        if not self.alive:
            return
        if not self._queue:
            try:
                wire.send(self._sock, data, fds)
                return
            except BlockingIOError:
                self._loop.add_writer(self._sock, self._flush)
            except OSError:
                self._lost()
                return
        import os

        self._queue.append((data, [os.dup(fd) for fd in fds]))

    def _flush(self) -> None:
        import os

        while self._queue:
            data, fds = self._queue[0]
            try:
                wire.send(self._sock, data, fds)
            except BlockingIOError:
                return
            except OSError:
                self._lost()
                return
            self._queue.popleft()
            for fd in fds:
                os.close(fd)
        self._loop.remove_writer(self._sock)

    def _on_readable(self) -> None:
        for _ in range(64):
            try:
                received = wire.receive(self._sock)
            except BlockingIOError:
                return
            except OSError:
                received = None
            if received is None:
                self._lost()
                return
            self._on_event(received[0])

    def _on_event(self, message: dict[str, Any]) -> None:
        event = message["ev"]
        if event == "hello":
            _resolve(self.hello, message)
            return
        held = self._held.get(message.get("id") or "")
        if held is not None and held.on_event(event, message):
            del self._held[held.id]

    def _lost(self) -> None:
        self.close()

    def close(self) -> None:
        """Hang up: the keeper ends all it holds."""
        if self.closed.done():
            return
        import os

        self._loop.remove_reader(self._sock)
        self._loop.remove_writer(self._sock)
        self._sock.close()
        for _, fds in self._queue:
            for fd in fds:
                with contextlib.suppress(OSError):
                    os.close(fd)
        self._queue.clear()
        _resolve(self.hello, None)
        self.closed.set_result(None)
        held, self._held = self._held, {}
        for one in held.values():
            one.on_lost()
