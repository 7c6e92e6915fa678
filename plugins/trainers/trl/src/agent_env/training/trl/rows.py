"""A row as TRL reads it: the prompt, and the columns that `reset` gets."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent_env.plugin.trainer import RowSettings


def prompt_of(task: Mapping[str, Any]) -> list[dict[str, str]]:
    """The first messages of a task."""
    messages = [{"role": "user", "content": str(task.get("prompt") or "")}]
    if task.get("system_prompt"):
        messages.insert(0, {"role": "system", "content": str(task["system_prompt"])})
    return messages


def environment_name(tools: str, prefix: str = "bundle") -> str:
    """The name of the environment for a set of tools, given as JSON text: column ``environment``."""
    return f"{prefix}_{hashlib.sha256(tools.encode('utf-8', 'replace')).hexdigest()[:8]}"


class TrlRow:
    """Words rows for one server. The settings name the token's variable; the token itself is never in a row."""

    def __init__(self, url: str, settings: RowSettings) -> None:
        own: dict[str, Any] = {"url": url.rstrip("/"), "token_var": settings.token_var}
        own |= {"tool_timeout": settings.tool_timeout, "reset_timeout": settings.reset_timeout}
        self._settings = json.dumps(own, ensure_ascii=False)
        self._names: dict[str, str] = {}

    def __call__(self, split: str, task: Mapping[str, Any], tools: str, /) -> str:
        """One line of JSON; ``tools`` is JSON text already."""
        if tools not in self._names:
            self._names[tools] = environment_name(tools)
        row = {
            "prompt": prompt_of(task),
            "split": split,
            "index": task["index"],
            "task_id": task["id"],
            "environment": self._names[tools],
            "agentenv": self._settings,
        }
        return json.dumps(row, ensure_ascii=False)
