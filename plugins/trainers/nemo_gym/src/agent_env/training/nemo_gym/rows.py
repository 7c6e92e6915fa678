"""A row as NeMo Gym reads it: what the model is asked, the agent that plays it, and which task it is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, cast

from agent_env.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent_env.plugin.trainer import RowSettings

AGENT: Final = "agentenv_simple_agent"
"""Name of the agent in rows; the configuration of NeMo Gym defines it."""
RESERVED: Final = frozenset({"seed_session", "verify", "aggregate_metrics", "mcp"})
"""Paths of a resources server, which a tool cannot have."""


def responses_tools(tools: str) -> list[dict[str, Any]]:
    """OpenAI function schemas, given as JSON text, in the form of the Responses API.

    Raises:
        UsageError: a tool has the name of a path that the resources server needs itself.
    """
    words: list[dict[str, Any]] = []
    for item in cast("list[dict[str, Any]]", json.loads(tools)):
        function = item["function"]
        name = str(function["name"])
        if name.strip("/") in RESERVED:
            raise UsageError(f"NeMo Gym cannot have a tool named {name!r}, which is a path of its own: rename the tool")
        parameters: dict[str, Any] = function.get("parameters") or {"type": "object", "properties": {}}
        words.append(
            {
                "type": "function",
                "name": name,
                "description": str(function.get("description") or ""),
                "parameters": parameters,
                "strict": False,
            }
        )
    return words


class NemoGymRow:
    """Words rows. The settings name the token's variable; neither the token nor the server's address is in a row."""

    def __init__(self, settings: RowSettings) -> None:
        self._own: dict[str, Any] = {
            "token_var": settings.token_var,
            "tool_timeout": settings.tool_timeout,
            "reset_timeout": settings.reset_timeout,
        }
        self._tools: dict[str, list[dict[str, Any]]] = {}

    def __call__(self, split: str, task: Mapping[str, Any], tools: str, /) -> str:
        """One line of JSON; ``tools`` is JSON text already."""
        if tools not in self._tools:
            self._tools[tools] = responses_tools(tools)
        messages = [{"role": "user", "content": str(task.get("prompt") or "")}]
        if task.get("system_prompt"):
            messages.insert(0, {"role": "system", "content": str(task["system_prompt"])})
        row = {
            "responses_create_params": {"input": messages, "tools": self._tools[tools]},
            "agent_ref": {"type": "responses_api_agents", "name": AGENT},
            "agentenv": {"split": split, "index": task["index"], "task_id": task["id"], **self._own},
        }
        return json.dumps(row, ensure_ascii=False)
