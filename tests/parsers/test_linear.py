"""The work grows as the text does, whatever the text: counted in searches, not in seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from agent_env.plugin.parsing.base import ScanningStream

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_env.plugin.parser import ToolCallParser

UNITS = {
    "opening tags": "<tool_call>",
    "opened objects": "<tool_call>{",
    "backslashes": "\\",
    "quotes": '"',
    "escaped quotes": '\\"',
    "nested objects": '{"a":',
    "nested lists": "[",
    "brackets that do not match": "]}",
    "angle brackets": "<",
    "think tags": "<think>",
    "ends of think tags": "</think>",
    "strings that do not end": '<tool_call>\\"</tool_call>',
    "strings that do not end on their line": '<tool_call>"\n</tool_call>',
    "foreign wrappers": "<tools>{",
    "foreign wrappers with strings": '<tools>{"a":"',
    "parameters": "<tool_call><function=a><parameter=b>",
    "ends of parameters": "</parameter>",
    "ends of wrappers in values": "<tool_call><function=a><parameter=b></tool_call>",
    "ends of functions in values": "<function=a><parameter=b>x</function>y",
    "keys": "<tool_call>a<arg_key>b</arg_key><arg_value>",
    "invokes": '<minimax:tool_call><invoke name="a"><parameter name="b">',
    "compact calls": "[TOOL_CALLS]a[ARGS]{",
    "compact calls with strings": '[TOOL_CALLS]a[ARGS]{"',
    "arrays": "[TOOL_CALLS][1,",
    "tags of Llama": '<|python_tag|>{"',
    "hidden objects": '<|python_tag|>{;{"name":',
    "lists of calls": "[f(a=1),",
    "lists of calls with strings": '[f(a="',
    "calls of DeepSeek": '<\uff5ctool▁call▁begin\uff5c>a<\uff5ctool▁sep\uff5c>{"<\uff5ctool▁call▁end\uff5c>',
    "calls of Kimi": '<|tool_call_begin|>a:0<|tool_call_argument_begin|>{"',
    "messages": '<|channel|>commentary to=a<|message|>"',
    "headers": "<|start|>assistant",
    "white space": " \n",
}


@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS.keys())
def test_steps(family: str, unit: str, parser_of: Callable[[str], ToolCallParser]) -> None:
    steps: list[int] = []
    for size in (10_000, 40_000):
        stream = parser_of(family).stream([])
        assert isinstance(stream, ScanningStream)
        stream.feed(unit * (size // len(unit)))
        stream.finish()
        steps.append(stream.cursor.steps)
    assert steps[1] <= 5 * steps[0] + 500


def test_deep_nesting_is_a_status(family: str, parser_of: Callable[[str], ToolCallParser]) -> None:
    parser = parser_of(family)
    text = parser.render([{"name": "a", "arguments": {"b": ["MARK"]}}])
    assert text is not None
    for quote in ('"MARK"', "'MARK'"):
        text = text.replace(quote, "[" * 100_000 + "]" * 100_000)
    (call,) = parser.parse(text, [{"type": "function", "function": {"name": "a", "parameters": _NESTED}}]).calls
    assert call.status in {"INVALID_JSON", "INVALID_ARGUMENTS", "MALFORMED_STRUCTURE"}


_NESTED = {"type": "object", "properties": {"b": {"type": "array"}}}
