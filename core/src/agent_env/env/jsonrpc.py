"""JSON and JSON-RPC 2.0 as both endpoints of an env use them."""

from __future__ import annotations

import json
from typing import Any, NoReturn

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
SERVER_ERROR = -32000


class RpcError(Exception):
    """A JSON-RPC error to answer with."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


def loads(body: bytes) -> Any:
    """One JSON value, strictly.

    Raises:
        ValueError: it is none.
    """
    try:
        return json.loads(body, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def dumps(value: Any) -> bytes:
    """A JSON value in UTF-8; a lone surrogate stays an escape.

    Raises:
        TypeError, ValueError: the value has no JSON form.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii")
    except RecursionError:
        raise ValueError("nested too deeply, or it contains itself") from None


def dumps_text(value: Any) -> bytes:
    """A JSON value in UTF-8, all of whose strings are Unicode text.

    Raises:
        TypeError, ValueError: the value has no such form.
    """
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        raise ValueError("a string holds half a character (a lone surrogate)") from None
    except RecursionError:
        raise ValueError("nested too deeply, or it contains itself") from None


def result_body(request_id: Any, result: bytes) -> bytes:
    """The reply that carries a result which is JSON already."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (dumps(request_id), result)


def error_body(request_id: Any, error: RpcError) -> bytes:
    """The reply that carries an error."""
    body: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.data is not None:
        body["data"] = error.data
    return dumps({"jsonrpc": "2.0", "id": request_id, "error": body})


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")
