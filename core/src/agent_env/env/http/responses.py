"""What a server answers, and how it is written."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

REASONS = {
    200: "OK",
    202: "Accepted",
    204: "No Content",
    307: "Temporary Redirect",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    413: "Content Too Large",
    415: "Unsupported Media Type",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    501: "Not Implemented",
    502: "Bad Gateway",
    503: "Service Unavailable",
    504: "Gateway Timeout",
}
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@dataclass(slots=True)
class Response:
    """An answer.

    Attributes:
        status: HTTP status.
        body: whole, or pieces as they come (then sent in chunks).
        content_type: media type of the body.
        headers: further headers.
    """

    status: int = 200
    body: bytes | AsyncIterator[bytes] = b""
    content_type: str | None = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


def json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """An answer that is one JSON value.

    Raises:
        TypeError, ValueError: it is no JSON value.
    """
    body = json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8", "backslashreplace")
    return Response(status, body, headers=headers or {})


def text_response(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """An answer in words."""
    return Response(status, f"{message}\n".encode(), "text/plain; charset=utf-8", headers or {})


def write_head(response: Response, *, keep_alive: bool, chunked: bool) -> bytes:
    """Status line and headers."""
    status = response.status
    lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Status')}", f"date: {_date()}"]
    if response.content_type is not None:
        lines.append(f"content-type: {response.content_type}")
    if chunked:
        lines.append("transfer-encoding: chunked")
    elif status != 204 and isinstance(response.body, bytes):
        lines.append(f"content-length: {len(response.body)}")
    lines.extend(f"{name}: {value}" for name, value in response.headers.items())
    if not keep_alive:
        lines.append("connection: close")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")


_last_date: tuple[int, str] = (0, "")


def _date() -> str:
    global _last_date  # noqa: PLW0603 - one formatted time a second
    now = int(time.time())
    if _last_date[0] != now:
        t = time.gmtime(now)
        clock = f"{t.tm_hour:02}:{t.tm_min:02}:{t.tm_sec:02}"
        _last_date = (now, f"{_DAYS[t.tm_wday]}, {t.tm_mday:02} {_MONTHS[t.tm_mon - 1]} {t.tm_year} {clock} GMT")
    return _last_date[1]
