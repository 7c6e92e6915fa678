"""Models for rehearsals of this bundle: ``reply(messages, tools)`` returns the next assistant message."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def solve(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:  # noqa: ARG001
    """Sends the phrase of the prompt through the tool and reports the tool's answer."""
    answers = [str(message["content"]) for message in messages if message["role"] == "tool"]
    if answers:
        return {"role": "assistant", "content": answers[-1]}
    prompt = next(str(message["content"]) for message in messages if message["role"] == "user")
    function = {"name": "echo", "arguments": json.dumps({"text": prompt.split('"')[1]})}
    return {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "type": "function", "function": function}]}


def idle(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:  # noqa: ARG001
    """Does nothing."""
    return {"role": "assistant", "content": "Nothing to report."}
