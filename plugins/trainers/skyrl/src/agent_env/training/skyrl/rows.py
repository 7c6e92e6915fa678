"""A row as SkyRL reads it: the prompt, the environment's name, and the columns that the environment gets as extras.

Tools and settings are JSON texts: a data set would merge the fields of all rows' tools into one type.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent_env.plugin.trainer import RowSettings

ENV_CLASS: Final = "agentenv"
"""The name under which the environment is registered, unless another is given."""
PARSER: Final = "hermes"
"""The parser of rows whose author named none."""


class SkyrlRow:
    """Words rows for one server. The settings name the token's variable; the token itself is never in a row."""

    def __init__(self, url: str, settings: RowSettings) -> None:
        own: dict[str, Any] = {
            "url": url.rstrip("/"),
            "max_turns": settings.max_turns,
            "tool_timeout": settings.tool_timeout,
            "reset_timeout": settings.reset_timeout,
            "model_timeout": settings.model_timeout,
            "token_var": settings.token_var,
            "parser": settings.parser or PARSER,
        }
        self._settings = json.dumps(own, ensure_ascii=False)

    def __call__(self, split: str, task: Mapping[str, Any], tools: str, /) -> str:
        """One line of JSON; ``tools`` is JSON text already."""
        prompt = [{"role": "user", "content": str(task.get("prompt") or "")}]
        if task.get("system_prompt"):
            prompt.insert(0, {"role": "system", "content": str(task["system_prompt"])})
        row = {
            "data_source": split,
            "prompt": prompt,
            "env_class": ENV_CLASS,
            "split": split,
            "index": task["index"],
            "task_id": task["id"],
            "tools": tools,
            "agentenv": self._settings,
        }
        return json.dumps(row, ensure_ascii=False)
