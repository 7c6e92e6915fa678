"""The stand-in's tokens: the UTF-8 bytes of a simple rendering, and two marks that no byte is.

The rendering is append-only, so what a model wrote is never tokenised again.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

START = 256
END = 257


def text_tokens(text: str) -> list[int]:
    """A token for each byte."""
    return list(text.encode("utf-8", "surrogatepass"))


def completion_tokens(message: dict[str, Any]) -> list[int]:
    """What the model sampled for this message, the end mark included."""
    parts = [f"<think>{message['reasoning_content']}</think>"] if message.get("reasoning_content") else []
    parts.append(_content(message.get("content")))
    for call in message.get("tool_calls") or ():
        function = call["function"]
        parts.append(f"<call>{json.dumps(function['name'])} {function['arguments']}</call>")
    return [*text_tokens("".join(parts)), END]


def prompt_tokens(
    messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]] | None, *, after: Sequence[int] = ()
) -> list[int]:
    """Tokens of ``messages`` up to where the model goes on, behind those of ``after``.

    Tools are rendered at the very start only: later requests cannot change them.
    """
    tokens = list(after)
    if not tokens and tools:
        tokens += [START, *text_tokens("tools\n" + json.dumps(tools, sort_keys=True)), END]
    for message in messages:
        tokens += [START, *text_tokens(str(message.get("role")) + "\n"), *_body(message)]
    return [*tokens, START, *text_tokens("assistant\n")]


def _body(message: dict[str, Any]) -> list[int]:
    if message.get("role") == "assistant":
        return completion_tokens(message)
    return [*text_tokens(_content(message.get("content"))), END]


def _content(content: object) -> str:
    return content if isinstance(content, str) else json.dumps(content) if content else ""
