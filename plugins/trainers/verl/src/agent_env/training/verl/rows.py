"""A row as verl's data set reads it; all that is ours stands in two columns of JSON text.

Tools and settings are texts because a data set would merge the fields of all rows' tools into one type.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from agent_env.training.verl import AGENT_NAME

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent_env.plugin.trainer import RowSettings


class VerlRow:
    """Words rows for one server. The settings name the token's variable; the token itself is never in a row."""

    def __init__(self, url: str, settings: RowSettings) -> None:
        self._settings: dict[str, Any] = {
            "url": url.rstrip("/"),
            "max_turns": settings.max_turns,
            "tool_timeout": settings.tool_timeout,
            "reset_timeout": settings.reset_timeout,
            "model_timeout": settings.model_timeout,
            "token_var": settings.token_var,
            "parser": settings.parser,
        }

    def __call__(self, split: str, task: Mapping[str, Any], tools: str, /) -> str:
        """One line of JSON; ``tools`` is JSON text already."""
        prompt = [{"role": "user", "content": str(task.get("prompt") or "")}]
        if task.get("system_prompt"):
            prompt.insert(0, {"role": "system", "content": str(task["system_prompt"])})
        own = {"split": split, "index": task["index"], "task_id": task["id"], **self._settings}
        row = {
            "data_source": split,
            "agent_name": AGENT_NAME,
            "prompt": prompt,
            # The verifier knows; verl only wants the column.
            "reward_model": {"style": "env", "ground_truth": ""},
            "extra_info": {"index": task["index"], "split": split, "task_id": task["id"]},
            "agentenv": json.dumps(own, ensure_ascii=False),
            "agentenv_tools": tools,
        }
        return json.dumps(row, ensure_ascii=False)
