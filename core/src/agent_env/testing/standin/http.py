"""A small HTTP/1.1 server on h11: it can break a connection on purpose, which frameworks cannot without complaint."""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    import h11

_REASONS = {200: "OK", 204: "No Content", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed"}


@dataclass(frozen=True, slots=True)
class Request:
    """A request that was read whole."""

    method: str
    path: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer; ``drop`` closes the connection instead of sending it."""

    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    drop: bool = False

    @classmethod
    def json(cls, value: Any, status: int = 200) -> Answer:
        return cls(status, json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8", "surrogatepass"))

    @classmethod
    def text(cls, text: str, status: int) -> Answer:
        return cls(status, text.encode(), "text/plain; charset=utf-8")


class HttpServer:
    """Serves ``handle`` on a loopback port of its own choice, in the running loop."""

    def __init__(self, handle: Callable[[Request], Awaitable[Answer]]) -> None:
        self._handle = handle
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.connections = 0
        """Connections that were accepted."""
        self.url = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0, backlog=1024)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        import h11

        connection = h11.Connection(h11.SERVER)
        try:
            while True:
                request = await _read(connection, reader)
                if request is None:
                    return
                answer = await self._handle(request)
                if answer.drop:
                    return
                writer.write(_render(connection, answer))
                await writer.drain()
                if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
                    return
                connection.start_next_cycle()
        except (ConnectionError, h11.ProtocolError):
            return
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()


async def _read(connection: h11.Connection, reader: asyncio.StreamReader) -> Request | None:
    """The next request, `None` when the client left."""
    import h11

    head: h11.Request | None = None
    body = bytearray()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(65536))
        elif isinstance(event, h11.Request):
            head = event
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage) and head is not None:
            return Request(head.method.decode(), head.target.decode().partition("?")[0], bytes(body))
        else:
            return None


def _render(connection: h11.Connection, answer: Answer) -> bytes:
    import h11

    head = h11.Response(
        status_code=answer.status,
        reason=_REASONS.get(answer.status, "Error").encode(),
        headers=[("content-type", answer.content_type), ("content-length", str(len(answer.body)))],
    )
    parts = [connection.send(head)]
    if answer.body:
        parts.append(connection.send(h11.Data(data=answer.body)))
    parts.append(connection.send(h11.EndOfMessage()))
    return b"".join(part for part in parts if part)
