"""Starting an attached command over TLS: one request and its answer, then the connection is the command's."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any

from agent_env.sandboxes.docker.failures import EngineError
from agent_env.sandboxes.docker.hijack import Frames, Hijacked
from agent_env.sandboxes.docker.tlspipe import TlsPipe

if TYPE_CHECKING:
    import ssl

    from agent_env.sandboxes.docker.hijack import Sink

_CONNECT_TIMEOUT = 30.0
_ANSWER_TIMEOUT = 120.0
_MOST_HEAD = 65536
_MOST_BODY = 65536
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})")
_LENGTH = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.IGNORECASE)


async def upgrade(context: ssl.SSLContext, host: str, port: int, path: str, body: Any, sink: Sink) -> Hijacked:
    """POST ``body`` to ``path`` and take the connection over.

    Raises:
        EngineError: the engine refused it; OSError: it cannot be reached or hung up.
    """
    answer = _Answer(sink)
    pipe = await TlsPipe.connect(context, host, port, answer.data, answer.end, _CONNECT_TIMEOUT)
    try:
        content = json.dumps(body).encode()
        name = f"[{host}]" if ":" in host else host
        pipe.write(
            f"POST {path} HTTP/1.1\r\nHost: {name}:{port}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(content)}\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n".encode()
            + content
        )
        async with asyncio.timeout(_ANSWER_TIMEOUT):
            status = await answer.status
        if status >= 400:
            raise EngineError(status, answer.message())
    except BaseException:
        pipe.abort()
        raise
    return Hijacked(pipe, pipe.abort, answer.frames)


class _Answer:
    """Takes the head of the answer, then passes everything on."""

    def __init__(self, sink: Sink) -> None:
        self.frames = Frames(sink)
        self.status: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._raw = bytearray()
        self._taken = False

    def data(self, data: bytes) -> None:
        """What came."""
        if self._taken:
            self.frames.feed_data(data)
            return
        if self.status.done():
            return
        self._raw += data
        end = self._raw.find(b"\r\n\r\n")
        if end < 0:
            if len(self._raw) > _MOST_HEAD:
                self._fail("its answer is no HTTP")
            return
        match = _STATUS.match(self._raw)
        if match is None:
            self._fail("its answer is no HTTP")
            return
        code, rest = int(match[1]), bytes(self._raw[end + 4 :])
        if code < 300:
            self._taken = True
            self.status.set_result(code)
            self.frames.feed_data(rest)
            return
        length = _LENGTH.search(self._raw, 0, end + 2)
        if len(rest) >= min(int(length[1]) if length else _MOST_BODY, _MOST_BODY):
            self.status.set_result(code)

    def end(self) -> None:
        """Nothing more comes."""
        if self._taken:
            self.frames.feed_eof()
        elif not self.status.done():
            match = _STATUS.match(self._raw)
            if match is not None and b"\r\n\r\n" in self._raw:
                self.status.set_result(int(match[1]))
            else:
                self._fail("it closed the connection")

    def _fail(self, why: str) -> None:
        self.status.set_exception(ConnectionError(why))

    def message(self) -> str:
        """What the engine said no with."""
        return self._raw.partition(b"\r\n\r\n")[2].decode(errors="replace").strip()
