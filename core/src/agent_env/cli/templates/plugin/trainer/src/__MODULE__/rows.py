"""A row as the trainer reads it: ``messages``, ``tools`` and ``metadata``."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent_env.plugin.trainer import RowSettings


class Row:
    """Words rows for one server. The settings name the token's variable; the token itself is never in a row."""

    def __init__(self, url: str, settings: RowSettings) -> None:
        self._own = {"url": url.rstrip("/"), **asdict(settings)}

    def __call__(self, split: str, task: Mapping[str, Any], tools: str, /) -> str:
        """One line of JSON; ``tools`` is JSON text already."""
        messages = [{"role": "user", "content": task.get("prompt") or ""}]
        if task.get("system_prompt"):
            messages.insert(0, {"role": "system", "content": task["system_prompt"]})
        metadata = {"split": split, "index": task["index"], "task_id": task["id"], "agentenv": self._own}
        head = json.dumps({"messages": messages, "metadata": metadata}, ensure_ascii=False)
        return f'{head[:-1]}, "tools": {tools}}}'
