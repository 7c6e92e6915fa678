"""Finding a policy, and the random one."""

from __future__ import annotations

import importlib
import json
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.errors import UsageError
from agent_env.testing.policies import CheckedPolicy, load_function, load_policy
from agent_env.testing.random_policy import random_policy, random_value
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

POLICIES = "def yes(messages, tools):\n    return {'content': 'yes'}\n\ndef _hidden(messages, tools):\n    return {}\n"


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    (tmp_path / "policies.py").write_text(POLICIES)
    return tmp_path


def test_a_policy_of_the_bundle(bundle: Path) -> None:
    assert load_policy(bundle, "yes")([], []) == {"content": "yes"}
    assert load_policy(bundle, f"{bundle / 'policies.py'}:yes")([], []) == {"content": "yes"}


@pytest.mark.parametrize("name", ["no", "_hidden", "import"])
def test_an_unknown_policy_lists_those_there_are(bundle: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"there are: yes, random"):
        load_policy(bundle, name)


def test_a_bundle_without_policies_has_the_random_one(tmp_path: Path) -> None:
    assert load_policy(tmp_path, "random")([], [])["content"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nofile.py:f", "no such file"),
        ("nocolon", "names no function"),
        ("no_such_module_x:f", "cannot import"),
        ("json:no_such", "has no function"),
    ],
)
def test_functions_that_cannot_be_had(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        load_function(text)


def test_a_file_that_fails_to_import_says_how(tmp_path: Path) -> None:
    (tmp_path / "policies.py").write_text("raise RuntimeError('not today')\n")
    with pytest.raises(UsageError, match=r"policies\.py: RuntimeError: not today"):
        load_policy(tmp_path, "yes")


Schema = dict[str, Any]
FIXED: list[Schema] = [
    {"type": "string"},
    {"type": "boolean"},
    {"type": "null"},
    {"type": ["string", "null"]},
    {"const": "x"},
]


def _object(properties: Schema, count: int) -> Schema:
    required = list(properties)[:count]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


@st.composite
def scalars(draw: st.DrawFn) -> Schema:
    low, more = draw(st.integers(-9, 9)), draw(st.integers(0, 9))
    kind = draw(st.sampled_from(["fixed", "integer", "number", "string", "enum"]))
    if kind == "fixed":
        return draw(st.sampled_from(FIXED))
    if kind == "string":
        return {"type": "string", "minLength": abs(low), "maxLength": abs(low) + more}
    if kind == "enum":
        return {"enum": draw(st.lists(st.integers(), min_size=1, max_size=3))}
    return {"type": kind, "minimum": low, "maximum": low + more}


@st.composite
def schemas(draw: st.DrawFn, depth: int = 3) -> Schema:
    kind = draw(st.sampled_from(["scalar", "array", "object", "any"])) if depth else "scalar"
    if kind == "array":
        least = draw(st.integers(0, 3))
        most = least + draw(st.integers(0, 3))
        return {"type": "array", "items": draw(schemas(depth=depth - 1)), "minItems": least, "maxItems": most}
    if kind == "object":
        names = draw(st.lists(st.sampled_from("abcd"), unique=True))
        return _object({name: draw(schemas(depth=depth - 1)) for name in names}, draw(st.integers(0, 4)))
    if kind == "any":
        return {"anyOf": [draw(schemas(depth=depth - 1)), draw(schemas(depth=depth - 1))]}
    return draw(scalars())


@given(schemas(), st.randoms(use_true_random=False))
def test_random_values_fit_their_schema(schema: dict[str, Any], rng: Any) -> None:
    validator: Any = importlib.import_module("jsonschema").Draft202012Validator
    validator(schema).validate(random_value(schema, rng))


def test_the_random_policy_calls_offered_tools_and_ends() -> None:
    tools: list[dict[str, Any]] = [
        {"type": "function", "function": {"name": "add", "parameters": _object({"n": {"type": "integer"}}, 1)}},
        {"type": "function", "function": {"name": "end_turn", "parameters": {"type": "object"}}},
    ]
    reply = random_policy(calls=2, seed=3)
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    for _ in range(2):
        message = reply(messages, tools)
        (call,) = message["tool_calls"]
        assert call["function"]["name"] == "add"
        assert isinstance(json.loads(call["function"]["arguments"])["n"], int)
        messages.append(message)
    assert "tool_calls" not in reply(messages, tools)
    assert "tool_calls" not in random_policy()([], tools[1:])


GOOD: list[Any] = [
    {"content": "x"},
    {"content": ""},
    {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]},
    {"tool_calls": [{"name": "f", "arguments": {}}]},
    {"content": "x", "tool_calls": None},
]
BAD: list[tuple[Any, str]] = [
    (None, "None, which is no assistant message"),
    (3, "3, which is no assistant message"),
    ([], "no assistant message"),
    ({}, "neither 'content' nor 'tool_calls'"),
    ({"text": "x"}, "neither 'content' nor 'tool_calls'"),
    ({"role": "user", "content": "x"}, "a message of the role 'user'"),
    ({"content": 3}, "the content 3, which is no text"),
    ({"tool_calls": {"name": "f"}}, "which are no list"),
    ({"tool_calls": "f()"}, "which are no list"),
    ({"tool_calls": ["f"]}, "the tool call 'f', which names no function"),
    ({"tool_calls": [{"function": {"arguments": {}}}]}, "which names no function"),
]


def always(reply: object) -> Callable[[object, object], object]:
    """A policy that always says the same."""

    def policy(messages: object, tools: object) -> object:
        return reply

    return policy


@pytest.mark.parametrize("reply", GOOD)
def test_an_assistant_message_is_played_as_it_is(reply: Any) -> None:
    checked = CheckedPolicy(always(reply), "p", lambda: pytest.fail("a mistake was seen"))
    assert checked([], []) is reply
    assert checked.mistake is None
    assert CheckedPolicy(always("x"), "p", lambda: None)([], []) == {"content": "x"}


@pytest.mark.parametrize(("reply", "words"), BAD)
def test_what_is_no_assistant_message_is_a_mistake(reply: Any, words: str) -> None:
    told: list[bool] = []
    checked = CheckedPolicy(always(reply), "lazy", lambda: told.append(True))
    for _ in range(2):
        with pytest.raises(UsageError, match="policy 'lazy' returned") as caught:
            checked([], [])
        assert words in str(caught.value)
    assert told == [True]


def test_an_async_policy_is_a_mistake() -> None:
    async def reply(messages: Any, tools: Any) -> dict[str, Any]:
        return {"content": "x"}

    with pytest.raises(UsageError, match="a coroutine: it has to be a plain function"):
        CheckedPolicy(reply, "lazy", lambda: None)([], [])
