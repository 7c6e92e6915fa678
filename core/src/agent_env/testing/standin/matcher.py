"""Whether a message that came back is the one that was stored, as a strict session server judges it."""

from __future__ import annotations

from typing import Any, cast

_COMPARED = ("role", "content", "reasoning_content")
_EMPTY: tuple[Any, ...] = (None, "", [])


def strict_match(stored: dict[str, Any], echoed: dict[str, Any]) -> bool:
    """Equal role, content, reasoning and calls; null, ``""`` and ``[]`` are one; ``index`` of a call is ignored."""
    for key in _COMPARED:
        if _plain(stored.get(key)) != _plain(echoed.get(key)):
            return False
    return _calls(stored.get("tool_calls")) == _calls(echoed.get("tool_calls"))


def matched_length(stored: list[dict[str, Any]], request: list[dict[str, Any]]) -> int:
    """How many messages from the start on match."""
    for place, (ours, theirs) in enumerate(zip(stored, request, strict=False)):
        if not strict_match(ours, theirs):
            return place
    return min(len(stored), len(request))


def _plain(value: object) -> object:
    return None if value in _EMPTY else value


def _calls(value: object) -> object:
    if not isinstance(value, list):
        return _plain(value)
    items = cast("list[object]", value)
    return _plain(
        [
            {key: part for key, part in cast("dict[str, Any]", item).items() if key != "index"}
            if isinstance(item, dict)
            else item
            for item in items
        ]
    )
