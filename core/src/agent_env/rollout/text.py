"""What the model reads of a tool's result: one string, since chat templates take no parts in a tool message."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent_env.plugin.tools import ToolResult


def result_text(result: ToolResult) -> str:
    """The result's parts joined by newlines; what is no text is described in words."""
    text = "\n".join(_part_text(part) for part in result.content)
    if not text and result.structured is not None:
        text = json.dumps(result.structured, ensure_ascii=False, default=str)
    if result.is_error and not text.lower().startswith("error"):
        return f"Error: {text}" if text else "Error: the tool failed without a message."
    return text


def _part_text(part: Mapping[str, Any]) -> str:
    kind = part.get("type")
    if kind == "text":
        return str(part.get("text", ""))
    if kind == "resource":
        return _resource_text(part)
    if kind == "resource_link":
        return f"[link: {part.get('name') or ''} {part.get('uri') or ''}]".replace("  ", " ")
    if kind in {"image", "audio"}:
        return (
            f"[{kind} of type {part.get('mimeType') or 'unknown'}, {_size(part.get('data'))}; it cannot be shown here]"
        )
    return f"[a part of type {kind!r}, which cannot be shown here]"


def _resource_text(part: Mapping[str, Any]) -> str:
    resource = part.get("resource")
    fields: dict[str, Any] = dict(resource) if isinstance(resource, dict) else {}  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(fields.get("text"), str):
        return str(fields["text"])
    kind = fields.get("mimeType") or "unknown"
    return f"[resource {fields.get('uri') or ''} of type {kind}, {_size(fields.get('blob'))}; it cannot be shown here]"


def _size(data: object) -> str:
    return f"{len(data) * 3 // 4} bytes" if isinstance(data, str) else "of unknown size"


def plain_text(value: object) -> str:
    """Text of a message's content: a string, or the text parts of a list; valid Unicode always."""
    if isinstance(value, str):
        text = value
    elif isinstance(value, list):
        text = "".join(_content_part(part) for part in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    else:
        text = ""
    return text.encode("utf-8", "replace").decode("utf-8")


def _content_part(part: object) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, dict):
        text: object = part.get("text")  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        return text if isinstance(text, str) else ""
    return ""
