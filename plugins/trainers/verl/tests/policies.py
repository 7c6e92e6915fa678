"""Models of the real runs, each a function of the conversation."""

# pyright: basic

from __future__ import annotations

import itertools
from typing import Any

_turn = itertools.count()


def call(name: str, arguments: str = "{}", content: str = "") -> dict[str, Any]:
    return {"content": content, "tool_calls": [{"function": {"name": name, "arguments": arguments}}]}


def answered(messages: Any) -> bool:
    return any(message["role"] == "tool" for message in messages)


def find(messages: Any, tools: Any) -> dict[str, Any]:
    assert [tool["function"]["name"] for tool in tools] == ["look", "die", "end_turn"], tools
    return {"content": "the word is xyzzy"} if answered(messages) else call("look", content="I look.")


def broken(messages: Any, tools: Any) -> dict[str, Any]:
    """Mistakes of a model, then the word."""
    replies = sum(message["role"] == "assistant" for message in messages)
    if replies == 0:
        return call("look", '{"at": ')
    if replies == 1:
        return {
            "content": "",
            "tool_calls": [call("fly")["tool_calls"][0], call("look")["tool_calls"][0]],
        }
    return {"content": "<think>\\nxyz\\n</think>\\nxyzzy"}


def guess(messages: Any, tools: Any) -> dict[str, Any]:
    return {"content": "plugh"}


def kill(messages: Any, tools: Any) -> dict[str, Any]:
    return call("die")


def every_other(messages: Any, tools: Any) -> dict[str, Any]:
    """Every second episode kills its env, the others find the word."""
    if answered(messages):
        return {"content": "xyzzy"}
    return call("look") if next(_turn) % 2 else call("die")


def ramble(messages: Any, tools: Any) -> dict[str, Any]:
    return {"content": "xyzzy " * 100}


def loud(messages: Any, tools: Any) -> dict[str, Any]:
    return {"content": "I looked."} if answered(messages) else call("look", content="a" * 60)


def abort(messages: Any, tools: Any) -> dict[str, Any]:
    return {"abort": True}
