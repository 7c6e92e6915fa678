"""What holds for any text: pieces equal the whole, nothing raises, spans are right, rendered calls are read again."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from agent_env.plugin.parser import CallStatus, ToolCallParser
from agent_env.plugin.parsing.render import same_json, tools_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

Load = Callable[[str], ToolCallParser]
Replies = Callable[[str], st.SearchStrategy[str]]
_QUIET = (HealthCheck.function_scoped_fixture, HealthCheck.too_slow)

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**12), 10**12)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
names: st.SearchStrategy[str] = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)
calls = st.lists(
    st.fixed_dictionaries({"name": names, "arguments": st.dictionaries(names, json_values, max_size=4)}),
    min_size=1,
    max_size=3,
)


@settings(max_examples=2000, deadline=None, suppress_health_check=_QUIET)
@given(data=st.data())
def test_pieces_equal_the_whole(
    family: str, parser_of: Load, replies_of: Replies, all_tools: list[dict[str, Any]], data: st.DataObject
) -> None:
    text = data.draw(replies_of(family))
    cuts = data.draw(st.lists(st.integers(1, 15), max_size=30))
    parser = parser_of(family)
    whole = parser.parse(text, all_tools)
    stream = parser.stream(all_tools)
    at = 0
    for length in cuts:
        stream.feed(text[at : at + length])
        at += length
    stream.feed(text[at:])
    assert stream.finish() == whole


@settings(max_examples=300, deadline=None, suppress_health_check=_QUIET)
@given(data=st.data())
def test_any_text(
    family: str, parser_of: Load, replies_of: Replies, all_tools: list[dict[str, Any]], data: st.DataObject
) -> None:
    text = data.draw(st.one_of(replies_of(family), st.text(max_size=60)))
    reply = parser_of(family).parse(text, all_tools)
    at = 0
    outside: list[str] = []
    for call in reply.calls:
        start, end = call.span
        assert at <= start <= end <= len(text)
        assert text[start:end] == call.raw
        outside.append(text[at:start])
        at = end
        assert isinstance(json.dumps(call.arguments, allow_nan=False), str)
        assert call.status is not CallStatus.OK or (call.name and call.arguments is not None)
    rest = iter("".join([*outside, text[at:]]))
    assert all(char in rest for char in reply.content)


@settings(max_examples=150, deadline=None, suppress_health_check=_QUIET)
@given(written=calls)
def test_rendered_calls_are_read_again(family: str, parser_of: Load, written: list[dict[str, Any]]) -> None:
    parser = parser_of(family)
    text = parser.render(written)
    if text is None:
        assert family in {"qwen3_coder", "glm45", "minimax_m2", "deepseek_v32"}  # nothing is escaped in these
        return
    reply = parser.parse(text, tools_of(written))
    assert [call.status for call in reply.calls] == [CallStatus.OK] * len(written)
    assert same_json([{"name": call.name, "arguments": call.arguments} for call in reply.calls], written)
    assert reply.content == ""
    assert reply.reasoning is None
