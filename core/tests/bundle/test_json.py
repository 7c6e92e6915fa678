"""JSON text: what is refused, and on which line a value stands."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from agent_env.bundle.jsontext import JsonProblem, lines, parse
from hypothesis import given
from hypothesis import strategies as st

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=20
)


@given(VALUES, st.booleans())
def test_every_json_value_is_read_as_the_standard_library_reads_it(value: Any, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)

    assert parse(text.encode(errors="surrogatepass")) == json.loads(text)


@given(VALUES)
def test_lines_of_every_value(value: Any) -> None:
    text = json.dumps(value, indent=1, ensure_ascii=False)

    found = lines(text)

    assert found == dict(naive_lines(value))


def naive_lines(value: Any) -> list[tuple[tuple[Any, ...], int]]:
    """What `json.dumps(indent=1)` writes: a line for each scalar, each opening and each closing."""
    out: list[tuple[tuple[Any, ...], int]] = []

    def walk(node: Any, path: tuple[Any, ...], line: int) -> int:
        out.append((path, line))
        if isinstance(node, dict) and node:
            for key, item in cast("dict[str, Any]", node).items():
                line = walk(item, (*path, key), line + 1)
            return line + 1
        if isinstance(node, list) and node:
            items = cast("list[object]", node)
            for index, item in enumerate(items):
                line = walk(item, (*path, index), line + 1)
            return line + 1
        return line

    walk(value, (), 1)
    return out


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused_with_words(raw: bytes) -> None:
    found: JsonProblem | None = None
    try:
        parse(raw)
    except JsonProblem as problem:
        found = problem

    if found is not None:
        assert found.message
        assert found.line is None or found.line >= 1


@pytest.mark.parametrize("text", ['{"a": 1, "a": 1}', '[{"b": {"a": 1, "c": 2, "a": 3}}]'])
def test_repeated_keys_are_refused(text: str) -> None:
    with pytest.raises(JsonProblem, match="'a' twice"):
        parse(text.encode())


def test_a_pair_of_surrogates_is_a_character() -> None:
    assert parse(b'"\\ud83d\\ude00"') == "😀"
