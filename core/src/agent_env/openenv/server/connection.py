"""A WebSocket: one task reads, replies leave in the order of their requests."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Any

from agent_env.openenv.server.frames import Refused, error_frame
from agent_env.openenv.wire import byte_length

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    from agent_env.openenv.server.hub import Hub
    from agent_env.openenv.server.play import Play

    Scope = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
    Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

logger = logging.getLogger("agent_env.openenv")

MAX_PENDING = 32
_BINARY = "binary frames are not read; send JSON as text"


class Connection(ABC):
    """Reads requests while one is being played, so that a reset, a close or the loss of the client is seen at once.

    A request that comes while another is played waits; a worker task exists only while there is something to play.
    """

    __slots__ = ("_closed", "_pending", "_play", "_receive", "_scope", "_send", "_worker", "hub")

    def __init__(self, hub: Hub, scope: Scope, receive: Receive, send: Send) -> None:
        self.hub = hub
        self._scope = scope
        self._receive = receive
        self._send = send
        self._pending: deque[tuple[Any, int] | str] | None = None
        self._worker: asyncio.Task[None] | None = None
        self._play: Play | None = None
        self._closed = False

    @abstractmethod
    def open(self) -> Play:
        """The session of this connection. Raises `Refused`."""

    @abstractmethod
    def leave(self, play: Play, worker: asyncio.Task[None] | None) -> Awaitable[None]:
        """What to do with the session when the connection ends."""

    @abstractmethod
    def read(self, text: str) -> Any:
        """The request in a frame, `None` to close. Raises `Refused`, which is answered in its turn."""

    @abstractmethod
    async def answer(self, request: Any, ticket: int) -> str:
        """The reply's frame. Raises `Refused`."""

    def refuse(self, refused: Refused) -> str:
        """The frame for a request, or a connection, that is refused."""
        return refused.frame()

    def unsendable(self, request: Any, why: str) -> str:
        """The frame in place of a reply that cannot be sent."""
        del request
        return self.refuse(Refused(why))

    async def run(self) -> None:
        """Serve the connection to its end."""
        message = await self._receive()
        if message["type"] != "websocket.connect":
            return
        await self._send({"type": "websocket.accept"})
        try:
            play = self._play = self.open()
        except Refused as refused:
            await self._reply(self.refuse(refused))
            await self._close(1012 if self.hub.stopping else 1000)
            return
        try:
            await self._read_all(play)
        finally:
            worker, self._worker = self._worker, None
            if worker is not None:
                worker.cancel()
            self.hub.spawn(_await(self.leave(play, worker)))
            await self._close(1000)

    async def _read_all(self, play: Play) -> None:
        while True:
            message = await self._receive()
            if message["type"] != "websocket.receive":
                self._closed = True
                return
            text = message.get("text")
            try:
                if text is None:
                    raise Refused(_BINARY, "INVALID_JSON")
                limit = self.hub.max_message_bytes
                if len(text) * 4 > limit and (size := byte_length(text)) > limit:
                    words = f"the message takes {size} bytes; {limit} are allowed"
                    raise Refused(words, "VALIDATION_ERROR", errors=[])
                request = self.read(text)
            except Refused as refused:
                work: tuple[Any, int] | str = self.refuse(refused)
            else:
                if request is None:
                    return
                work = (request, play.arrive(request))
            del message, text
            if self._worker is None:
                if isinstance(work, str):
                    await self._reply(work)
                else:
                    self._worker = asyncio.get_running_loop().create_task(self._work(work))
                continue
            if self._pending is None:
                self._pending = deque()
            if len(self._pending) >= MAX_PENDING:
                words = f"more than {MAX_PENDING} requests without waiting for a reply"
                await self._reply(error_frame(words, "SESSION_ERROR"))
                await self._close(1008)
                return
            self._pending.append(work)

    async def _work(self, work: tuple[Any, int] | str) -> None:
        """Play requests until none is left."""
        try:
            while True:
                await self._reply(work if isinstance(work, str) else await self._answer(*work))
                if not self._pending:
                    return
                work = self._pending.popleft()
        except Exception:  # a client that is gone shows itself here in many ways
            if not self._closed:
                logger.debug("a reply could not be sent", exc_info=True)
                await self._close(1011)
        finally:
            if self._worker is asyncio.current_task():
                self._worker = None
                self._pending = None

    async def _answer(self, request: Any, ticket: int) -> str:
        try:
            text = await self.answer(request, ticket)
        except Refused as refused:
            text = self.refuse(refused)
            if refused.code == "CAPACITY_REACHED":  # as stock servers: the frame, then the close
                await self._reply(text)
                await self._close(1000)
                raise
        except ValueError as error:
            text = self.unsendable(request, f"the reply is no JSON: {error}")
        except Exception as error:
            logger.exception("internal error in a session")
            text = self.refuse(Refused(f"internal error: {type(error).__name__}: {error}"))
        limit = self.hub.max_message_bytes
        if len(text) * 4 > limit and (size := byte_length(text)) > limit:
            text = self.unsendable(request, f"the reply takes {size} bytes; {limit} are allowed")
        return text

    async def _reply(self, text: str) -> None:
        await self._send({"type": "websocket.send", "text": text})

    async def _close(self, code: int) -> None:
        if not self._closed:
            self._closed = True
            with contextlib.suppress(Exception):  # the client may be gone in the meantime
                await self._send({"type": "websocket.close", "code": code})


async def _await(work: Awaitable[None]) -> None:
    await work
