"""The server's side of the parser: requests out of bytes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_env.env.http.wire import (
    ChunkedBody,
    LengthBody,
    ProtocolError,
    content_length,
    is_chunked,
    keeps_alive,
    read_headers,
    take_head,
)

if TYPE_CHECKING:
    from agent_env.env.http.wire import Body

MAX_BODY = 64 * 1024 * 1024

_REQUEST_LINE = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]{1,32}) ([\x21-\x7e]+) (HTTP/1\.[01])")


@dataclass(slots=True)
class Request:
    """One request, body included.

    Attributes:
        method: upper case as sent.
        target: path and query as sent.
        headers: by lower-case name.
        body: decoded from its transfer coding.
        keep_alive: the client means to use the connection again.
    """

    method: str
    target: str
    headers: dict[str, str]
    body: bytes = b""
    keep_alive: bool = True

    @property
    def path(self) -> str:
        """The target without query; an absolute target loses its host."""
        path = self.target.partition("?")[0]
        if path.startswith(("http://", "https://")):
            path = "/" + path.partition("://")[2].partition("/")[2]
        return path

    @property
    def query(self) -> str:
        """What stands after the question mark."""
        return self.target.partition("?")[2]


class RequestParser:
    """Feed it bytes, get whole requests in their order.

    Args:
        max_body: most bytes of a body.
    """

    def __init__(self, max_body: int = MAX_BODY) -> None:
        self._max_body = max_body
        self._buffer = bytearray()
        self._scanned = 0
        self._request: Request | None = None
        self._body: Body | None = None
        self._pieces: list[bytes] = []
        self._size = 0
        self._expects_continue = False

    @property
    def idle(self) -> bool:
        """No request is half read."""
        return self._request is None and not self._buffer

    def take_continue(self) -> bool:
        """Whether the client waits for ``100 Continue`` before it sends the body; true once for each request."""
        waits = self._expects_continue and self._request is not None and self._size == 0
        self._expects_continue = False
        return waits

    def feed(self, data: bytes) -> None:
        """Take bytes; `next_request` then gives what they complete."""
        self._buffer += data

    def next_request(self) -> Request | None:
        """The next whole request, or `None` until more bytes come.

        Raises:
            ProtocolError: the bytes are no request, or it is larger than allowed; nothing more can be read.
        """
        if self._request is None:
            self._read_head()
        request, body = self._request, self._body
        if request is None or body is None:
            return None
        piece = body.take(self._buffer)
        if piece:
            self._pieces.append(piece)
            self._size += len(piece)
            if self._size > self._max_body:
                raise self._too_large()
        if not body.done:
            return None
        request.body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._request, self._body, self._pieces, self._size = None, None, [], 0
        self._expects_continue = False
        return request

    def _read_head(self) -> None:
        while self._buffer.startswith(b"\r\n"):  # some clients end a body with an empty line
            del self._buffer[:2]
            self._scanned = 0
        lines, self._scanned = take_head(self._buffer, self._scanned)
        if lines is None:
            return
        first = _REQUEST_LINE.fullmatch(lines[0])
        if first is None:
            raise ProtocolError(f"bad request line {lines[0][:80]!r}")
        version = first[3]
        headers = read_headers(lines[1:])
        if version == b"HTTP/1.1" and "host" not in headers:
            raise ProtocolError("no Host header")
        length, chunked = content_length(headers), is_chunked(headers)
        if chunked and (length is not None or version == b"HTTP/1.0"):
            raise ProtocolError("Transfer-Encoding beside Content-Length, or in HTTP/1.0")
        if length is not None and length > self._max_body:
            raise self._too_large()
        self._expects_continue = headers.get("expect", "").lower() == "100-continue" and (chunked or bool(length))
        self._request = Request(
            first[1].decode("ascii"), first[2].decode("ascii"), headers, keep_alive=keeps_alive(version, headers)
        )
        self._body = ChunkedBody() if chunked else LengthBody(length or 0)

    def _too_large(self) -> ProtocolError:
        return ProtocolError(f"the body is larger than {self._max_body} bytes", 413)
