"""Schemas as the real transformers shows them: whatever the types lose stands in the descriptions."""

from __future__ import annotations

import json
import random
import re
from typing import TYPE_CHECKING, Any, cast

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

BASIC = ("string", "integer", "number", "boolean", "null", "array", "object")
NAMES = ("door", "from", "a-b", "a_b", "self", "été", "Args", "Returns", "x Raises", "n", "class", "_self", "timeout_s")
WORDS = (
    "Which one.",
    "",
    "Two\nlines: of words.",
    "Args: none",
    "a (choices: x)",
    "tab\there",
    "Returns: it",
    "x: y\nz: w",
)


def schema_of(rng: random.Random, depth: int = 0) -> Any:
    """Some schema of a parameter."""
    kind = rng.randrange(11 if depth < 3 else 4)
    fields: dict[str, Any]
    if kind <= 2:
        fields = {"type": rng.choice(BASIC)}
    elif kind == 3:
        fields = {"enum": rng.sample(["a", "b c", 1, 2.5, True, None], 2)}
    elif kind == 4:
        fields = {"type": "array", "items": schema_of(rng, depth + 1)}
    elif kind == 5:
        fields = {"type": "object", "additionalProperties": schema_of(rng, depth + 1)}
    elif kind == 6:
        fields = {"anyOf": [schema_of(rng, depth + 1) for _ in range(rng.randint(1, 3))]}
    elif kind == 7:
        fields = {"type": rng.sample(BASIC, 2)}
    elif kind == 8:
        fields = {"type": "object", "properties": {rng.choice(NAMES): schema_of(rng, depth + 1)}, "required": ["n"]}
    elif kind == 9:
        fields = {"const": rng.choice(["a", 1, None, False])}
    else:
        fields = rng.choice([{}, {"$ref": "#/$defs/P"}, {"not": {}}, {"oneOf": [{"type": "string"}]}])
    for key, value in (("minimum", 1), ("default", {"Args:": "(choices: [1])"}), ("title", "T: x"), ("format", "date")):
        if rng.random() < 0.15:
            fields[key] = value
    if rng.random() < 0.5:
        fields["description"] = rng.choice(WORDS)
    return fields


def tool_of(rng: random.Random, place: int) -> dict[str, Any]:
    names = rng.sample(NAMES, rng.randint(0, 4))
    parameters: dict[str, Any] = {"type": "object", "properties": {name: schema_of(rng) for name in names}}
    if names:
        parameters["required"] = rng.sample(names, rng.randint(0, len(names)))
    if rng.random() < 0.3:
        parameters["additionalProperties"] = rng.choice([True, False, {"type": "string"}])
    if rng.random() < 0.2:
        parameters["$defs"] = {"P": {"type": "object", "description": "Returns: a point"}}
    name = rng.choice(["press", "get-weather", "reset", "_x", "class"]) + str(place)
    return {"type": "function", "function": {"name": name, "description": rng.choice(WORDS), "parameters": parameters}}


def canonical(schema: Any) -> Any:
    """One form for all spellings of one meaning; wording left out."""
    if not isinstance(schema, dict):
        return schema
    fields = cast("dict[str, Any]", schema)
    if "const" in fields:
        fields = {"enum": [fields["const"]]}
    types: Any = fields.get("type", [])
    kinds: set[str] = {types} if isinstance(types, str) else set(types)
    nullable = bool(fields.get("nullable"))
    branches: list[dict[str, Any]] = [canonical(branch) for branch in fields.get("anyOf", [])]
    if nullable and branches:
        branches.append(canonical({"type": "null"}))
    elif nullable:
        kinds.add("null")
    if branches and all(set(branch) == {"type"} for branch in branches):
        kinds, branches = {kind for branch in branches for kind in branch["type"]}, []
    form: dict[str, Any] = {}
    if "enum" in fields:
        values: list[Any] = fields["enum"]
        form["enum"] = sorted(map(repr, values + ([None] if nullable and None not in values else [])))
    elif kinds:
        form["type"] = tuple(sorted(kinds))
    if branches:
        flat: list[Any] = [inner for branch in branches for inner in branch.get("anyOf", [branch])]
        form["anyOf"] = sorted(flat, key=repr)
    for key in ("items", "additionalProperties"):
        if key in fields:
            form[key] = canonical(fields[key])
    return form


def read_words(text: str) -> tuple[str | None, dict[str, Any]]:
    """The name that a parameter stands for, and the keys told in its description."""
    told: dict[str, Any] = {}
    decoder = json.JSONDecoder()
    if match := re.search(r"JSON Schema: (?=\{)", text):
        told = decoder.raw_decode(text, match.end())[0]
        text = text[: match.start()]
    if match := re.search(r"Default: (?=.*\.\s*$)", text):
        told["default"] = decoder.raw_decode(text, match.end())[0]
        text = text[: match.start()]
    stands = re.search(r'Stands for (".*?")\.', text)
    return (json.loads(stands[1]) if stands else None), told


@pytest.fixture(scope="module")
def tools() -> list[dict[str, Any]]:
    rng = random.Random(11)
    return [tool_of(rng, place) for place in range(400)]


def test_nothing_is_lost(run_real: Callable[..., str], tools: list[dict[str, Any]]) -> None:
    shown: list[Any] = json.loads(run_real("real_schemas.py", stdin=json.dumps(tools)))
    kept_types = 0
    for tool, one in zip(tools, shown, strict=True):
        own, seen = tool["function"], one["schema"]["function"]
        assert seen["name"] == own["name"] == one["name"]
        properties: dict[str, Any] = own["parameters"]["properties"]
        read: dict[str, Any] = {}
        for called, about in seen["parameters"]["properties"].items():
            stands, told = read_words(about["description"])
            read[stands or called] = (called, about, told)
        assert set(read) == set(properties), own
        assert one["called"] == [own["name"], dict.fromkeys(properties, 1)]
        for name, schema in properties.items():
            called, about, told = read[name]
            wanted = {key: value for key, value in schema.items() if key != "description"}
            left = {key: value for key, value in wanted.items() if key not in told}
            assert told.items() <= wanted.items(), (schema, about)
            if left:  # the types say it
                kept_types += 1
                assert canonical(left) == canonical(about), (schema, about)
                assert set(left) <= {"type", "enum", "const", "items", "additionalProperties", "anyOf"}, (schema, about)
            words = " ".join(str(schema.get("description", "")).lower().expandtabs().split())
            assert words in " ".join(about["description"].lower().split()), (schema, about)
            required = called in seen["parameters"].get("required", [])
            assert required == (name in own["parameters"].get("required", []))
        for key in ("$defs", "additionalProperties"):
            if key in own["parameters"]:
                word = "No other arguments." if own["parameters"][key] is False else f'"{key}": '
                assert word in seen["description"]
        assert " ".join(own["description"].lower().split()) in " ".join(seen["description"].lower().split())
    assert kept_types > 100
