"""Tools and their answers as text, for models whose chat template is not told of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agent_env.plugin.parser import ToolCallParser


def with_tools(
    prompt: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]], parser: ToolCallParser
) -> list[dict[str, Any]]:
    """The prompt, its system message extended by the tools and by how they are called in the parser's format."""
    messages = [dict(message) for message in prompt]
    if not tools:
        return messages
    words = tool_words(tools, parser)
    if messages and messages[0].get("role") == "system":
        messages[0]["content"] = f"{messages[0].get('content') or ''}\n\n{words}".strip()
    else:
        messages.insert(0, {"role": "system", "content": words})
    return messages


def tool_words(tools: Sequence[Mapping[str, Any]], parser: ToolCallParser) -> str:
    """The tools' schemas, one a line, and the form of a call."""
    lines = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
    sample = parser.render([{"name": "tool_name", "arguments": {"parameter": "value"}}])
    form = f"Write a call exactly in this form:\n{sample}\n" if sample else ""
    return (
        f"You may call these tools:\n<tools>\n{lines}\n</tools>\n{form}"
        "Each answer comes in <tool_response> tags with the next message."
    )


def answer_messages(messages: Sequence[Mapping[str, Any]], *, native: bool) -> list[dict[str, str]]:
    """The answers to a reply's calls as the chat template takes them.

    Args:
        messages: ``tool`` messages.
        native: leave them ``tool`` messages; else they become one ``user`` message.
    """
    texts = [str(message.get("content") or "") for message in messages]
    if native:
        return [{"role": "tool", "content": text} for text in texts]
    if not texts:
        return []
    blocks = "\n".join(f"<tool_response>\n{text}\n</tool_response>" for text in texts)
    return [{"role": "user", "content": blocks}]
