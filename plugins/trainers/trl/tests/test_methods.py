"""Tools as methods: names, types and words."""

from __future__ import annotations

import inspect
from typing import Any, Literal

import pytest
from agent_env.errors import UsageError
from agent_env.training.trl.hints import hint_of
from agent_env.training.trl.methods import tool_methods


def tool(name: str, parameters: dict[str, Any] | None = None, description: str = "Does it.") -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def record(_self: Any, name: str, arguments: Any) -> str:
    return f"{name} {dict(arguments)}"


@pytest.mark.parametrize(
    ("schema", "hint"),
    [
        ({"type": "string"}, str),
        ({"type": "integer"}, int),
        ({"type": "array", "items": {"type": "array", "items": {"type": "number"}}}, list[list[float]]),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, dict[str, int]),
        ({"enum": ["a", "b"], "type": "string"}, Literal["a", "b"]),
        ({"const": 3}, Literal[3]),
        ({"type": ["string", "null"]}, str | None),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, int | None),
        ({}, Any),
    ],
)
def test_a_type_says_what_the_schema_says(schema: dict[str, Any], hint: Any) -> None:
    assert hint_of({**schema, "description": "Words."}) == (hint, {})


@pytest.mark.parametrize(
    ("schema", "hint", "left"),
    [
        ({"type": "integer", "minimum": 0}, int, {"minimum": 0}),
        ({"type": "string", "default": "x", "format": "date"}, str, {"default": "x", "format": "date"}),
        (
            {"type": "array", "items": {"type": "integer", "minimum": 0}},
            Any,
            {"type": "array", "items": {"type": "integer", "minimum": 0}},
        ),
        ({"$ref": "#/$defs/Point"}, Any, {"$ref": "#/$defs/Point"}),
        ({"enum": [[1], [2]]}, Any, {"enum": [[1], [2]]}),
        ({"type": "object", "properties": {"x": {}}}, dict, {"properties": {"x": {}}}),
        (False, Any, {"not": {}}),
    ],
)
def test_what_no_type_says_is_left_over(schema: Any, hint: Any, left: dict[str, Any]) -> None:
    if "items" in left:
        hint = list
    assert hint_of(schema) == (hint, left)


def test_the_docstring_holds_what_types_lose() -> None:
    schema = {
        "type": "object",
        "properties": {
            "count": {"type": "integer", "minimum": 1, "default": 2, "description": "How many\n  of them."},
            "from": {"type": "string"},
        },
        "required": ["from"],
        "additionalProperties": False,
        "$defs": {"P": {"type": "object"}},
    }
    (method,) = tool_methods([tool("take", schema, "Take some.\n\nReturns: nothing.")], record)
    assert inspect.getdoc(method.function) == (
        "Take some.\n\nreturns: nothing.\n\n"
        'No other arguments. JSON Schema of the arguments: {"$defs": {"P": {"type": "object"}}}.\n\n'
        "Args:\n"
        '    count: How many of them. Default: 2. JSON Schema: {"minimum": 1}.\n'
        '    from_: Stands for "from".\n\n'
        "Returns:\n    The answer."
    )
    signature = inspect.signature(method.function)
    assert signature.parameters["from_"].default is inspect.Parameter.empty
    assert signature.parameters["count"].default is None
    assert method.function(None, from_="a", count=1) == "take {'from': 'a', 'count': 1}"


def test_names_that_python_or_trl_could_not_take() -> None:
    names = ["reset", "get_reward", "_hidden", "get-weather", "get.weather", "look", "été"]
    methods = tool_methods([tool(name) for name in names], record)
    assert [method.function.__name__ for method in methods] == names
    attributes = [method.attribute for method in methods]
    assert len(set(attributes)) == len(names)
    assert not {"reset", "get_reward"} & set(attributes)
    assert all(name.isidentifier() and not name.startswith("_") for name in attributes)
    assert attributes[5] == "look"


def test_aliases_never_meet() -> None:
    names = ["a-b", "a_b", "a.b", "class", "class_", "self", "_self", "myReturns", "1st", ""]
    properties = {name: {"type": "string"} for name in names}
    (method,) = tool_methods([tool("t", {"type": "object", "properties": properties})], record)
    shown = list(inspect.signature(method.function).parameters)[1:]
    assert len(set(shown)) == len(names)
    answer = method.function(None, **{name: name for name in shown})
    expected = {name: shown[place] for place, name in enumerate(names)}
    assert answer == f"t {expected}"
    assert {"a_b", "class_", "self"} <= set(shown)


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (tool(""), "without a name"),
        (tool("t", {"type": "array"}), "'t'"),
        (tool("t", {"type": "object", "properties": [1]}), "'t'"),
    ],
)
def test_what_cannot_be_a_method_is_refused_by_name(broken: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        tool_methods([broken], record)
