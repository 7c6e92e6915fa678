"""Answers of the stand-in that are none."""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse, Response


class Dropped(Response):
    """A connection that ends in the middle of an answer."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        del scope, receive
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"1000")]})


def refused(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    """An error as the service words it."""
    return JSONResponse({"code": status, "message": message}, status, headers)
