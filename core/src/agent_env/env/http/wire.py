"""What requests and responses have in common: heads, header fields and bodies. No IO."""

from __future__ import annotations

import re
from typing import Protocol

MAX_HEAD = 64 * 1024
MAX_CHUNK_LINE = 4096

_TOKEN = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_BAD_VALUE = re.compile(rb"[\x00\r\n]")
_DIGITS = re.compile(r"[0-9]{1,18}")
_HEX = re.compile(rb"[0-9A-Fa-f]{1,15}")


class ProtocolError(Exception):
    """The peer does not speak HTTP/1.1. ``status`` is what a server answers."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


def take_head(buffer: bytearray, scanned: int, limit: int = MAX_HEAD) -> tuple[list[bytes] | None, int]:
    """Take the lines of a head out of ``buffer`` when they are all there.

    Returns:
        The lines, or `None` and from where to search next time.

    Raises:
        ProtocolError: 431, the head is larger than ``limit``.
    """
    end = buffer.find(b"\r\n\r\n", max(0, scanned - 3))
    if end > limit or (end < 0 and len(buffer) > limit):
        raise ProtocolError(f"the head is larger than {limit} bytes", 431)
    if end < 0:
        return None, len(buffer)
    lines = bytes(buffer[:end]).split(b"\r\n")
    del buffer[: end + 4]
    return lines, 0


def read_headers(lines: list[bytes]) -> dict[str, str]:
    """Header lines by lower-case name; a repeated field is joined by a comma, as HTTP has it.

    Raises:
        ProtocolError: a line is no header field.
    """
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon or _TOKEN.fullmatch(name) is None or _BAD_VALUE.search(value) is not None:
            raise ProtocolError(f"bad header line {line[:80]!r}")
        key = name.decode("ascii").lower()
        text = value.strip(b" \t").decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return headers


def content_length(headers: dict[str, str]) -> int | None:
    """The length that the head declares.

    Raises:
        ProtocolError: it is no number, or there are several that differ.
    """
    raw = headers.get("content-length")
    if raw is None:
        return None
    values = {value.strip() for value in raw.split(",")}
    value = values.pop()
    if values or _DIGITS.fullmatch(value) is None:
        raise ProtocolError(f"bad Content-Length {raw[:80]!r}")
    return int(value)


def is_chunked(headers: dict[str, str]) -> bool:
    """Whether the body comes in chunks.

    Raises:
        ProtocolError: 501, another transfer coding.
    """
    raw = headers.get("transfer-encoding")
    if raw is None:
        return False
    if raw.strip().lower() != "chunked":
        raise ProtocolError(f"unsupported Transfer-Encoding {raw[:80]!r}", 501)
    return True


def keeps_alive(version: bytes, headers: dict[str, str]) -> bool:
    """Whether the connection may be used again after this message."""
    tokens = {token.strip() for token in headers.get("connection", "").lower().split(",")}
    return "close" not in tokens and (version == b"HTTP/1.1" or "keep-alive" in tokens)


class Body(Protocol):
    """Takes a body out of a buffer as it arrives."""

    done: bool

    def take(self, buffer: bytearray) -> bytes:
        """What of the body is in the buffer, removed from it."""
        ...


class LengthBody:
    """A body of known length."""

    def __init__(self, length: int) -> None:
        self._left = length
        self.done = length == 0

    def take(self, buffer: bytearray) -> bytes:
        piece = bytes(buffer[: self._left])
        del buffer[: self._left]
        self._left -= len(piece)
        self.done = self._left == 0
        return piece


class UntilCloseBody:
    """A body that ends with the connection."""

    done = False

    def take(self, buffer: bytearray) -> bytes:
        piece = bytes(buffer)
        buffer.clear()
        return piece


class ChunkedBody:
    """A body in chunks; extensions and trailers are read and dropped."""

    def __init__(self) -> None:
        self.done = False
        self._left = 0
        self._state = "size"
        self._trailers = 0

    def take(self, buffer: bytearray) -> bytes:
        pieces: list[bytes] = []
        while not self.done:
            if self._state == "data":
                piece = bytes(buffer[: self._left])
                del buffer[: len(piece)]
                pieces.append(piece)
                self._left -= len(piece)
                if self._left:
                    break
                self._state = "end"
            elif self._state == "end":
                if len(buffer) < 2:
                    break
                if not buffer.startswith(b"\r\n"):
                    raise ProtocolError("a chunk does not end where it said")
                del buffer[:2]
                self._state = "size"
            elif not self._line(buffer):
                break
        return b"".join(pieces)

    def _line(self, buffer: bytearray) -> bool:
        """Read one line of framing; False when it is not whole yet."""
        end = buffer.find(b"\r\n", 0, MAX_CHUNK_LINE + 2)
        if end < 0:
            if len(buffer) > MAX_CHUNK_LINE:
                raise ProtocolError("a chunk's line is too long")
            return False
        line = bytes(buffer[:end])
        del buffer[: end + 2]
        if self._state == "trailers":
            self._trailers += len(line)
            if self._trailers > MAX_HEAD:
                raise ProtocolError("the trailers are too large", 431)
            self.done = not line
            return True
        size = line.partition(b";")[0].rstrip(b" \t")
        if _HEX.fullmatch(size) is None:
            raise ProtocolError(f"bad chunk size {size[:40]!r}")
        self._left = int(size, 16)
        self._state = "data" if self._left else "trailers"
        return True
