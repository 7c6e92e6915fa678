"""What a policy returns, made into the assistant message of an engine."""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def say(content: str, *, reasoning: str | None = None) -> dict[str, Any]:
    """A reply without a call; ``content`` may hold call markup, which stays unparsed."""
    message: dict[str, Any] = {"content": content}
    if reasoning is not None:
        message["reasoning_content"] = reasoning
    return message


def call(tool: str, /, **arguments: Any) -> dict[str, Any]:
    """A reply with one call."""
    return calls((tool, arguments))


def calls(*items: tuple[str, Mapping[str, Any] | str], content: str = "") -> dict[str, Any]:
    """A reply with several calls; arguments given as a string are sent as they are, JSON or not."""
    return {
        "content": content,
        "tool_calls": [{"function": {"name": name, "arguments": arguments}} for name, arguments in items],
    }


def engine_message(reply: Mapping[str, Any] | str | None) -> dict[str, Any]:
    """The message as SGLang's chat endpoint words it.

    Content is never null, ids are ``call_<24 hex>``, arguments are a JSON string.
    """
    fields: Mapping[str, Any] = {"content": reply} if isinstance(reply, str) else (reply or {})
    content = fields.get("content")
    reasoning = fields.get("reasoning_content")
    raw_calls = fields.get("tool_calls")
    tool_calls = [
        _engine_call(item, index) for index, item in enumerate(cast("Sequence[Mapping[str, Any]]", raw_calls or ()))
    ]
    return {
        "role": "assistant",
        "content": content if isinstance(content, str) else "",
        "reasoning_content": reasoning if isinstance(reasoning, str) else None,
        "tool_calls": tool_calls or None,
    }


def _engine_call(item: Mapping[str, Any], index: int) -> dict[str, Any]:
    function: Mapping[str, Any] = item.get("function") or item
    arguments = function.get("arguments", {})
    return {
        "id": item.get("id") or f"call_{secrets.token_hex(12)}",
        "index": index,
        "type": "function",
        "function": {
            "name": function.get("name"),
            "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False),
        },
    }
