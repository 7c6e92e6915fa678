"""The JSON of tool lists, made once for each list and shared by all sessions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from agent_env.openenv.wire import write_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent_env.plugin.tools import ToolSpec

_KEY = "openenv"


@dataclass(frozen=True, slots=True)
class Toolset:
    """A list of tools in both spellings of the wire.

    Attributes:
        observation: JSON of the ``list_tools`` observation (snake_case).
        rpc: result of ``tools/list`` (camelCase with nulls).
    """

    observation: str
    rpc: dict[str, Any]


def toolset(tools: Sequence[ToolSpec]) -> Toolset:
    """The forms of ``tools``, kept on the shared list when it can keep them."""
    derived = getattr(tools, "derived", None)
    kept = cast("dict[str, Any]", derived) if isinstance(derived, dict) else {}
    ready = kept.get(_KEY)
    if isinstance(ready, Toolset):
        return ready
    snake = [
        {"name": tool.name, "description": tool.description, "input_schema": dict(tool.input_schema)} for tool in tools
    ]
    made = Toolset(
        observation=write_json({"metadata": {}, "tools": snake}),
        rpc={"tools": [_camel(tool) for tool in tools]},
    )
    kept[_KEY] = made
    return made


def _camel(tool: ToolSpec) -> dict[str, Any]:
    return {
        "name": tool.name,
        "title": None,
        "description": tool.description or None,
        "inputSchema": dict(tool.input_schema),
        "outputSchema": None,
        "icons": None,
        "annotations": None,
        "meta": None,
        "execution": None,
    }
