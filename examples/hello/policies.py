"""Models for rehearsals of this bundle: ``reply(messages, tools)`` returns the next assistant message."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

COMMAND = "cd /app/greeting && echo 'goodbye, and come again' > goodbye.txt"


def solve(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Greets; where there is a shell it runs the errand first."""
    has_shell = any(tool["function"]["name"] == "bash" for tool in tools)
    if has_shell and not any(message["role"] == "assistant" for message in messages):
        function = {"name": "bash", "arguments": json.dumps({"command": COMMAND})}
        return {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "c1", "type": "function", "function": function}],
        }
    return {"role": "assistant", "content": "Hello, and welcome in!"}


def idle(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:  # noqa: ARG001
    """Says nothing friendly and does nothing."""
    return {"role": "assistant", "content": "We are closed."}
