"""The tools a model is offered against the tools a task has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agent_env.plugin.tools import ToolSpec

END_TURN = "end_turn"
_WORDING = frozenset({"description", "title", "examples"})


def tool_names(tools: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names of OpenAI function schemas."""
    return [name for name, _ in (_function(tool) for tool in tools) if name]


def tools_difference(offered: Sequence[Mapping[str, Any]], actual: Sequence[ToolSpec]) -> str:
    """How the offered tools differ from the task's, ``""`` when they do not. Wording does not count."""
    offered_by_name = dict(_function(tool) for tool in offered)
    actual_by_name: dict[str, Any] = {tool.name: tool.input_schema for tool in actual}
    if set(offered_by_name) != set(actual_by_name):
        return (
            f"the row offers the tools {_list(offered_by_name)}, but the task has {_list(actual_by_name)}: "
            "write the rows again for this bundle"
        )
    changed = [name for name, schema in actual_by_name.items() if _shape(offered_by_name[name]) != _shape(schema)]
    if changed:
        return (
            f"the parameters of {_list(changed)} differ between the row (tools {_list(offered_by_name)}) and the task "
            f"(tools {_list(actual_by_name)}): write the rows again for this bundle"
        )
    return ""


def _function(tool: Mapping[str, Any]) -> tuple[str, Any]:
    function = tool.get("function")
    fields = cast("dict[str, Any]", function) if isinstance(function, dict) else {}
    name = fields.get("name")
    return (name if isinstance(name, str) else ""), fields.get("parameters") or {}


def _list(names: Mapping[str, Any] | Sequence[str]) -> str:
    return ", ".join(sorted(names)) or "(none)"


def _shape(schema: object, *, names: bool = False) -> object:
    """A schema without its wording; below ``properties`` the keys are parameter names, not keywords."""
    if isinstance(schema, dict):
        fields = cast("dict[str, object]", schema)
        return {
            key: _shape(value, names=key in {"properties", "$defs", "definitions"} and not names)
            for key, value in fields.items()
            if names or key not in _WORDING
        }
    if isinstance(schema, (list, tuple)):
        return [_shape(item) for item in cast("list[object]", schema)]
    return schema
