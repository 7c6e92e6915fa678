"""Errors as Daytona's API answers them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Mapping

_CLASSES: Mapping[int, type[web.HTTPException]] = {
    400: web.HTTPBadRequest,
    401: web.HTTPUnauthorized,
    403: web.HTTPForbidden,
    404: web.HTTPNotFound,
    408: web.HTTPRequestTimeout,
    409: web.HTTPConflict,
    429: web.HTTPTooManyRequests,
    503: web.HTTPServiceUnavailable,
}


def problem(
    status: int, message: str, *, code: str = "", source: str = "DAYTONA_API", headers: Mapping[str, str] | None = None
) -> web.HTTPException:
    """An answer that is an error; raise it."""
    body = {"statusCode": status, "message": message, "code": code, "source": source}
    return _CLASSES[status](text=json.dumps(body), content_type="application/json", headers=dict(headers or {}))
