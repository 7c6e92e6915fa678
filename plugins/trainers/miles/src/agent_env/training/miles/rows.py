"""The rows that Miles reads: chat messages, and metadata for `agent.run`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent_env.plugin.trainer import RowSettings


class MilesRow:
    """Words rows for one server and its settings."""

    def __init__(self, url: str, settings: RowSettings) -> None:
        own: dict[str, Any] = {
            "url": url.rstrip("/"),
            "max_turns": settings.max_turns,
            "tool_timeout": settings.tool_timeout,
            "reset_timeout": settings.reset_timeout,
            "model_timeout": settings.model_timeout,
            "token_var": settings.token_var,
        }
        if settings.parser is not None:
            own["parser"] = settings.parser
        self._settings = json.dumps(own, ensure_ascii=False)
        self._encode = json.JSONEncoder(ensure_ascii=False).encode

    def __call__(self, split: str, task: Mapping[str, Any], tools: str, /) -> str:
        # Put together from texts: tools and settings are encoded once, not for each of 100,000 rows.
        encode = self._encode
        messages: list[dict[str, Any]] = [{"role": "user", "content": task.get("prompt") or ""}]
        if task.get("system_prompt"):
            messages.insert(0, {"role": "system", "content": task["system_prompt"]})
        return (
            f'{{"messages": {encode(messages)}, "metadata": {{"split": {encode(split)}, "index": {task["index"]:d}, '
            f'"task_id": {encode(task["id"])}, "tools": {tools}, "agentenv": {self._settings}}}}}'
        )
