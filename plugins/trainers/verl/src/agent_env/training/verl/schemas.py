"""Tools as verl's parsers of calls read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from agent_env.training.verl.third_party import third_party

if TYPE_CHECKING:
    from collections.abc import Mapping


def parser_schema(tool: Mapping[str, Any]) -> Any:
    """A tool in verl's own type, which knows only names and types of parameters; the model sees the whole schema."""
    return third_party("verl.tools.schemas").OpenAIFunctionToolSchema.model_validate(schema_fields(tool))


def schema_fields(tool: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of that type."""
    function = _dict(tool.get("function"))
    parameters = _dict(function.get("parameters"))
    properties = _dict(parameters.get("properties"))
    return {
        "type": "function",
        "function": {
            "name": str(function.get("name") or ""),
            "description": str(function.get("description") or ""),
            "parameters": {
                "type": "object",
                "properties": {name: {"type": _type(_dict(value))} for name, value in properties.items()},
                "required": [str(name) for name in _list(parameters.get("required"))],
            },
        },
    }


def _type(parameter: Mapping[str, Any]) -> str | list[str]:
    kind = parameter.get("type")
    if isinstance(kind, str):
        return kind
    if kinds := _list(kind):
        return [str(one) for one in kinds]
    options = [_dict(option).get("type") for key in ("anyOf", "oneOf") for option in _list(parameter.get(key))]
    if named := [option for option in options if isinstance(option, str)]:
        return named
    return "object" if "properties" in parameter or "$ref" in parameter else "string"


def _dict(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return list(cast("list[object]", value)) if isinstance(value, list) else []
