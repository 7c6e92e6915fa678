"""The offered tools, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast


class ToolTable:
    """Names and parameter schemas of the offered tools. What is no OpenAI function schema is left out."""

    def __init__(self, tools: Sequence[Mapping[str, Any]]) -> None:
        self._schemas: dict[str, object] = {}
        for tool in cast("Sequence[object]", tools):
            fields = _mapping(tool)
            function = _mapping(fields.get("function")) or fields
            name = function.get("name")
            if isinstance(name, str):
                self._schemas[name] = function.get("parameters")

    def __contains__(self, name: str) -> bool:
        return name in self._schemas

    def schema(self, name: str | None) -> Mapping[str, Any]:
        """Schema of the tool's arguments; empty when the tool is unknown or has none."""
        return _mapping(self._schemas.get(name)) if name is not None else {}


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
