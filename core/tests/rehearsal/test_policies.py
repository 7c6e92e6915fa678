"""Finding a policy, and the random one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.errors import UsageError
from agent_env.testing.policies import load_function, load_policy
from agent_env.testing.random_policy import random_policy, random_value
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

if TYPE_CHECKING:
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


SCALARS = st.one_of(
    st.just({"type": "string"}),
    st.builds(
        lambda low, more: {"type": "integer", "minimum": low, "maximum": low + more},
        st.integers(-9, 9),
        st.integers(0, 9),
    ),
    st.builds(
        lambda low, more: {"type": "number", "minimum": low, "maximum": low + more},
        st.integers(-9, 9),
        st.integers(0, 9),
    ),
    st.just({"type": "boolean"}),
    st.just({"type": "null"}),
    st.just({"type": ["string", "null"]}),
    st.builds(
        lambda n, more: {"type": "string", "minLength": n, "maxLength": n + more}, st.integers(0, 5), st.integers(0, 5)
    ),
    st.builds(lambda values: {"enum": values}, st.lists(st.integers(), min_size=1, max_size=3)),
    st.just({"const": "x"}),
)


def _object(properties: dict[str, Any], count: int) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties)[:count],
        "additionalProperties": False,
    }


SCHEMAS: st.SearchStrategy[dict[str, Any]] = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.builds(
            lambda items, n, more: {"type": "array", "items": items, "minItems": n, "maxItems": n + more},
            inner,
            st.integers(0, 3),
            st.integers(0, 3),
        ),
        st.builds(_object, st.dictionaries(st.sampled_from("abcd"), inner, max_size=4), st.integers(0, 4)),
        st.builds(lambda a, b: {"anyOf": [a, b]}, inner, inner),
    ),
    max_leaves=8,
)


@given(SCHEMAS, st.randoms(use_true_random=False))
def test_random_values_fit_their_schema(schema: dict[str, Any], rng: Any) -> None:
    Draft202012Validator(schema).validate(random_value(schema, rng))


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
