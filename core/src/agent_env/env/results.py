"""What a tool returned, as an MCP result."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, cast

from agent_env.env.types.jsonable import to_json


@dataclass(frozen=True, slots=True)
class Image:
    """An image that a tool returns, alone or in a list beside text.

    Attributes:
        data: the encoded image.
        mime: its media type, such as ``image/png``.
    """

    data: bytes
    mime: str = "image/png"

    def part(self) -> dict[str, Any]:
        """The MCP content part."""
        from base64 import b64encode

        return {"type": "image", "data": b64encode(self.data).decode("ascii"), "mimeType": self.mime}


def text_part(text: str) -> dict[str, Any]:
    """An MCP text part."""
    return {"type": "text", "text": text}


def error_result(message: str) -> dict[str, Any]:
    """A result that tells the model what it did wrong."""
    return {"content": [text_part(message)], "isError": True}


def tool_result(value: object) -> dict[str, Any]:
    """The MCP result for a tool's return value.

    Text stands as it is; `None` is no content; anything else is JSON text, and a JSON object also
    ``structuredContent``; a list with an `Image` in it is a list of parts.

    Raises:
        TypeError, ValueError: the value has no JSON form.
    """
    whole = value
    if value is None:
        return {"content": [], "isError": False}
    if isinstance(value, str):
        return {"content": [text_part(value)], "isError": False}
    if isinstance(value, Image):
        return {"content": [value.part()], "isError": False}
    if isinstance(value, list | tuple):
        items = cast("list[object]", value)
        if any(isinstance(item, Image) for item in items):
            return {"content": [_part(item) for item in items], "isError": False}
    plain = to_json(whole)
    result: dict[str, Any] = {"content": [text_part(_dump(plain))], "isError": False}
    if isinstance(plain, dict):
        result["structuredContent"] = plain
    return result


def _part(item: object) -> dict[str, Any]:
    if isinstance(item, Image):
        return item.part()
    return text_part(item if isinstance(item, str) else _dump(to_json(item)))


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
