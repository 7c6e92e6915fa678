"""Every recorded case, whole and in pieces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agent_env.plugin.parser import ParsedReply, ToolCallParser
from agent_env.plugin.parsing.render import same_json

Load = Callable[[str], ToolCallParser]


def seen(reply: ParsedReply) -> dict[str, Any]:
    calls = [{"status": str(call.status), "name": call.name, "arguments": call.arguments} for call in reply.calls]
    return {"content": reply.content, "reasoning": reply.reasoning, "calls": calls}


def test_whole(case: dict[str, Any], parser_of: Load) -> None:
    found = seen(parser_of(case["family"]).parse(case["text"], case["tools"]))
    assert same_json(found, case["expect"]), found


def test_every_cut(case: dict[str, Any], parser_of: Load) -> None:
    parser, text = parser_of(case["family"]), case["text"]
    whole = parser.parse(text, case["tools"])
    for cut in range(1, len(text)):
        stream = parser.stream(case["tools"])
        stream.feed(text[:cut])
        stream.feed(text[cut:])
        assert stream.finish() == whole, f"cut at {cut}"


def test_character_by_character(case: dict[str, Any], parser_of: Load) -> None:
    parser = parser_of(case["family"])
    stream = parser.stream(case["tools"])
    given = [attempt for char in case["text"] for attempt in stream.feed(char)]
    found = stream.finish()
    assert same_json(seen(found), case["expect"])
    assert list(found.calls[: len(given)]) == given
