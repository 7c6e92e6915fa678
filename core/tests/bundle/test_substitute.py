"""Placeholders: what takes a value, with which type, and what stays text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from agent_env.bundle.substitute import compiled, fill, keys_of, placeholder_pattern, text_of
from hypothesis import given
from hypothesis import strategies as st

KEYS = st.text(min_size=1, max_size=6)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3), max_leaves=8
)
ROWS = st.dictionaries(KEYS.filter(lambda key: key != "seed" and ">" not in key and "<" not in key), VALUES, max_size=5)
PLAIN = st.text().filter(lambda text: "<" not in text and ">" not in text)


@given(ROWS, st.data())
def test_a_leaf_that_is_a_placeholder_takes_the_value_itself(row: dict[str, Any], data: st.DataObject) -> None:
    row = {**row, "key": data.draw(VALUES)}
    node = compiled({"deep": [{"leaf": "<key>"}]}, placeholder_pattern(row))

    assert fill(node, row)["deep"][0]["leaf"] is row["key"]


@given(ROWS, st.data())
def test_inside_a_string_a_placeholder_takes_the_text(row: dict[str, Any], data: st.DataObject) -> None:
    keys = sorted(row)
    parts = data.draw(st.lists(PLAIN | (st.sampled_from(keys).map(lambda key: f"<{key}>") if keys else PLAIN)))
    text = ".".join(["", *parts])  # never a placeholder alone
    expected = ".".join(["", *(text_of(row[part[1:-1]]) if part[:1] == "<" else part for part in parts)])

    node = compiled(text, placeholder_pattern(row))

    assert fill(node, row) == expected
    assert keys_of(node) == {part[1:-1] for part in parts if part[:1] == "<"}


@given(VALUES, ROWS)
def test_what_holds_no_placeholder_is_the_same_object(value: Any, row: dict[str, Any]) -> None:
    value = json.loads(json.dumps(value).replace("<", "").replace(">", ""))

    assert compiled(value, placeholder_pattern(row)) is value


@given(VALUES)
def test_values_are_not_filled_again(value: Any) -> None:
    row = {"a": "<b>", "b": value}

    assert fill(compiled("<a> and <a>", placeholder_pattern(row)), row) == "<b> and <b>"


def test_other_text_in_angle_brackets_is_text() -> None:
    pattern = placeholder_pattern(["day"])

    assert compiled("<think>about <dayz> or <Day></think>", pattern) == "<think>about <dayz> or <Day></think>"
    assert fill(compiled("<think><day></think>", pattern), {"day": 3}) == "<think>3</think>"
    assert fill(compiled("<<day>>", pattern), {"day": 3}) == "<3>"


def test_keys_of_an_object_are_not_filled() -> None:
    row = {"day": "x"}

    assert fill(compiled({"<day>": "<day>"}, placeholder_pattern(row)), row) == {"<day>": "x"}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (None, "null"),
        (1, "1"),
        (2.5, "2.5"),
        ("ä", "ä"),
        ([1, "ä"], '[1, "ä"]'),
        ({"a": 1}, '{"a": 1}'),
    ],
)
def test_text_of_values(value: Any, text: str) -> None:
    assert text_of(value) == text
