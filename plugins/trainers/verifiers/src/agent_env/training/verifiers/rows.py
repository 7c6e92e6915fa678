"""A row as the taskset reads it: the fields of `BundleData`, one JSON object a line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent_env.plugin.trainer import RowSettings


def row_settings(settings: RowSettings) -> dict[str, Any]:
    """The fields of a row that are settings."""
    return {
        "token_var": settings.token_var,
        "max_turns": settings.max_turns,
        "tool_timeout": settings.tool_timeout,
        "reset_timeout": settings.reset_timeout,
        "model_timeout": settings.model_timeout,
        "parser": settings.parser,
    }


def row_fields(url: str, split: str, task: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a row that are the task; ``task`` is one of the server's."""
    return {
        "id": str(task["id"]),
        "name": str(task.get("name") or task["id"]),
        "prompt": str(task.get("prompt") or ""),
        "system_prompt": task.get("system_prompt") or None,
        "url": url.rstrip("/"),
        "split": split,
        "index": int(task["index"]),
    }


class VerifiersRow:
    """Words rows for one server. The settings name the token's variable; the token itself is never in a row."""

    def __init__(self, url: str, settings: RowSettings) -> None:
        self._url = url
        self._settings = json.dumps(row_settings(settings), ensure_ascii=False)[1:]

    def __call__(self, split: str, task: Mapping[str, Any], tools: str, /) -> str:  # noqa: ARG002 - the episode lists them
        """One line of JSON."""
        return f"{json.dumps(row_fields(self._url, split, task), ensure_ascii=False)[:-1]}, {self._settings}"
