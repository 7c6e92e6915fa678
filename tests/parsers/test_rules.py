"""Faults of each kind in every family, beyond the recorded cases: what the rules of docs/parsers.md make of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.plugin.parsing.render import same_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_env.plugin.parser import ToolCallParser

FOLDER = Path(__file__).parent / "cases"
RULES: list[dict[str, Any]] = [json.loads(line) for line in (FOLDER / "rules.jsonl").read_text().splitlines()]
TOOLS: list[dict[str, Any]] = json.loads((FOLDER / "rules_tools.json").read_text())


@pytest.mark.parametrize("rule", RULES, ids=[f"{rule['family']}-{place}" for place, rule in enumerate(RULES)])
def test_rule(rule: dict[str, Any], parser_of: Callable[[str], ToolCallParser]) -> None:
    reply = parser_of(rule["family"]).parse(rule["text"], TOOLS)
    calls = [{"status": str(call.status), "name": call.name, "arguments": call.arguments} for call in reply.calls]
    found = {"content": reply.content, "reasoning": reply.reasoning, "calls": calls}
    assert same_json(found, rule["expect"]), found


CALLS: list[dict[str, Any]] = [{"name": "send", "arguments": {"to": "a", "body": 'say "hi" \u00e9\nx', "urgent": True}}]


def test_cut_anywhere(family: str, parser_of: Callable[[str], ToolCallParser]) -> None:
    """A call that is cut is one attempt without anything in the content, from its first tag on."""
    parser = parser_of(family)
    text = parser.render(CALLS)
    assert text is not None
    begun = False
    for end in range(1, len(text)):
        reply = parser.parse(text[:end], TOOLS)
        if not begun:
            begun = bool(reply.calls)
            continue
        assert len(reply.calls) == 1, text[:end]
        assert reply.content == "", text[:end]
        (call,) = reply.calls
        assert call.status in {"UNCLOSED_BLOCK", "OK"}
        if call.status == "OK":  # only tags that wrap calls are missing
            assert same_json(call.arguments, CALLS[0]["arguments"])
        assert call.name in {None, "send"}
        assert call.arguments is None or same_json(call.arguments, CALLS[0]["arguments"])
    assert begun


def test_a_string_that_holds_the_tags_of_the_format(family: str, parser_of: Callable[[str], ToolCallParser]) -> None:
    """However long it is, and wherever the text is cut."""
    parser = parser_of(family)
    for calls in ([{"name": "send", "arguments": {"body": "x", "to": "y"}}],):
        tags = parser.render(calls)
        assert tags is not None
        body = f"first {tags} then {'x' * 2000}"
        outer = [{"name": "send", "arguments": {"body": body, "to": "z"}}]
        text = parser.render(outer)
        if text is None:  # nothing is escaped in the tagged formats: render says so
            assert family in {"qwen3_coder", "glm45", "minimax_m2", "deepseek_v32"}
            continue
        whole = parser.parse(text, TOOLS)
        assert [(call.status, call.arguments) for call in whole.calls] == [("OK", outer[0]["arguments"])]
        for length in (1, 3, 700):
            stream = parser.stream(TOOLS)
            for at in range(0, len(text), length):
                stream.feed(text[at : at + length])
            assert stream.finish() == whole
