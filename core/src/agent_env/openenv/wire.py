"""What both halves of the wire agree on: limits, codes and the JSON they read and write. Standard library only."""

from __future__ import annotations

import json
from typing import Any, Final, Literal, NoReturn

MAX_MESSAGE_BYTES: Final = 100 * 1024 * 1024
"""Largest frame or body, in both directions."""

MAX_EPISODE_ID: Final = 255
"""Longest ``episode_id``, in characters."""

END_TURN: Final = "end_turn"
"""The tool that ends the agent's turn."""

TOOL_TIMEOUT_S: Final = 60.0
"""Deadline of a tool call that names none in ``metadata.agentenv.timeout_s``."""

TURN_TIMEOUT_S: Final = 600.0
"""Deadline of a reset or a turn's end that names none."""

CLOSE_RESTART: Final = 1012
"""WebSocket close code of a server that stops."""

ErrorCode = Literal[
    "INVALID_JSON",
    "UNKNOWN_TYPE",
    "VALIDATION_ERROR",
    "EXECUTION_ERROR",
    "CAPACITY_REACHED",
    "FACTORY_ERROR",
    "SESSION_ERROR",
]

ToolErrorType = Literal["execution_error", "invalid_args", "transport_error", "tool_not_found", "timeout"]


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant)
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_ASCII_ENCODER: Final = json.JSONEncoder(allow_nan=False, separators=(",", ":"))


def read_json(text: str) -> Any:
    """The value of a JSON text.

    Raises:
        ValueError: the text is no JSON (NaN and Infinity are none), or nested too deeply.
    """
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def write_json(value: Any) -> str:
    """The JSON text of a value; it can always be encoded as UTF-8.

    Raises:
        ValueError: the value is no JSON: it holds NaN, infinity, a cycle or an object of another type.
    """
    try:
        text = _ENCODER.encode(value)
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:  # a lone surrogate can only travel escaped
            return _ASCII_ENCODER.encode(value)
    return text


def byte_length(text: str) -> int:
    """Bytes of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode())
