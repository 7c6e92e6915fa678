"""The client's side of the parser: one reply out of bytes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from agent_env.env.http.wire import (
    ChunkedBody,
    LengthBody,
    ProtocolError,
    UntilCloseBody,
    content_length,
    is_chunked,
    keeps_alive,
    read_headers,
    take_head,
)

if TYPE_CHECKING:
    from agent_env.env.http.wire import Body


class Sink(Protocol):
    """Takes the body of a reply that is an event stream."""

    def begin(self, reply: Reply) -> None:
        """The head of the reply is there."""
        ...

    def take(self, piece: bytes) -> bool:
        """Take a piece; true = it has what it was waiting for."""
        ...


_STATUS_LINE = re.compile(rb"(HTTP/1\.[01]) ([1-9][0-9]{2})(?: .*)?")


@dataclass(slots=True)
class Reply:
    """A server's answer.

    Attributes:
        status: HTTP status.
        headers: by lower-case name.
        body: decoded from its transfer coding; empty when it went to a sink.
    """

    status: int
    headers: dict[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""

    @property
    def content_type(self) -> str:
        """Media type without parameters, lower case."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


class ReplyTooLarge(ProtocolError):
    """The reply is larger than the caller takes."""


class ReplyParser:
    """Reads the reply to one request.

    Args:
        method: the request's method: a reply to HEAD has no body.
        max_body: most bytes of a body.
        sink: takes the body when it is an event stream.

    Attributes:
        reply: the reply, once its head is there.
        done: the whole reply was read.
        satisfied: the sink has what it wants; the rest of the stream does not matter.
        reusable: the connection can take another request after this reply.
    """

    def __init__(self, method: str, max_body: int, sink: Sink | None = None) -> None:
        self.reply: Reply | None = None
        self.done = False
        self.satisfied = False
        self.reusable = False
        self._method = method
        self._max_body = max_body
        self._sink = sink
        self._streams = False
        self._buffer = bytearray()
        self._scanned = 0
        self._body: Body | None = None
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> None:
        """Take bytes.

        Raises:
            ProtocolError: they are no reply, or it is too large.
        """
        self._buffer += data
        while self._body is None:
            if not self._read_head():
                return
        self._take(self._body)

    def end(self) -> None:
        """The connection ended.

        Raises:
            ProtocolError: in the middle of the reply.
        """
        if self.done:
            return
        if not isinstance(self._body, UntilCloseBody):
            begun = self.reply is not None or self._buffer
            raise ProtocolError(
                "the connection ended in the middle of the reply" if begun else "the connection ended without a reply"
            )
        self._finish()

    def _read_head(self) -> bool:
        lines, self._scanned = take_head(self._buffer, self._scanned)
        if lines is None:
            return False
        first = _STATUS_LINE.fullmatch(lines[0])
        if first is None:
            raise ProtocolError(f"bad status line {lines[0][:80]!r}")
        status = int(first[2])
        headers = read_headers(lines[1:])
        if 100 <= status < 200:
            if status == 101:
                raise ProtocolError("the server switched protocols unasked")
            return True
        self.reply = Reply(status, headers)
        self.reusable = keeps_alive(first[1], headers)
        self._streams = self._sink is not None and self.reply.content_type == "text/event-stream"
        length, chunked = content_length(headers), is_chunked(headers)
        if self._method == "HEAD" or status in (204, 304):
            self._body = LengthBody(0)
        elif chunked:
            self._body = ChunkedBody()
        elif length is None:
            self._body, self.reusable = UntilCloseBody(), False
        elif length > self._max_body:
            raise self._too_large()
        else:
            self._body = LengthBody(length)
        if self._streams and self._sink is not None:
            self._sink.begin(self.reply)
        return True

    def _take(self, body: Body) -> None:
        piece = body.take(self._buffer)
        if piece:
            self._size += len(piece)
            if self._size > self._max_body:
                raise self._too_large()
            if not self._streams:
                self._pieces.append(piece)
            elif self._sink is not None and not self.satisfied:
                self.satisfied = self._sink.take(piece)
        if body.done:
            self._finish()

    def _finish(self) -> None:
        self.done = True
        self.reusable = self.reusable and not self._buffer
        if self.reply is not None:
            self.reply.body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)

    def _too_large(self) -> ReplyTooLarge:
        return ReplyTooLarge(f"the reply is larger than {self._max_body} bytes")
