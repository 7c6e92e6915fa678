"""Calls in wrappers of other formats: they are flagged, never run, and what can be read is handed over."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from agent_env.plugin.parsing.calls import read_call_object
from agent_env.plugin.parsing.cursor import Tags, Token
from agent_env.plugin.parsing.jsonscan import find_value_end
from agent_env.plugin.parsing.jsonvalue import NotJson, decode_json

if TYPE_CHECKING:
    from agent_env.plugin.parsing.cursor import Cursor, Scan
    from agent_env.plugin.parsing.reply import Reply

#: Opening tags of wrappers that models have learnt from other formats.
FOREIGN_TAGS = (
    "<tool_call>",
    "<tool_calls>",
    "<toolcall>",
    "<tool>",
    "<tools>",
    "<tool_use>",
    "<tool_code>",
    "<function>",
    "<functions>",
    "<functioncall>",
    "<function_call>",
    "<function_calls>",
    "<invoke>",
    "<minimax:tool_call>",
    "<|tool_call|>",
    "<|tool_calls|>",
    "<|python_tag|>",
    "<|tool_call_start|>",
    "<|tool_calls_section_begin|>",
)
_BRACKETS = Tags("{", "[")
_TAG_BEFORE = re.compile(r"(<\|?[\w:-]*(?:tool|func|call|invoke)[\w:-]*\|?>)\s*\Z", re.IGNORECASE)
_CLOSING = Tags(*(f"</{tag[1:]}" for tag in FOREIGN_TAGS if tag[1] != "|"), "<|/tool_call|>")
_LOOK_BACK = 200
_MAX_SPACES = 4


def foreign_block(cursor: Cursor, reply: Reply, opener: Token) -> Scan[None]:
    """A wrapper of another format: when a call object (or a list of them) in JSON stands in it, it is an attempt.

    Anything else is text. The cursor stands behind the opener.
    """
    bracket = yield from cursor.after_space(_BRACKETS, opener.end)
    if bracket is None or reply.retries <= 0:
        reply.text(opener.start, opener.end)
        return
    end = yield from find_value_end(cursor, bracket.start)
    calls = _calls(cursor.text[bracket.start : end]) if end >= 0 else None
    if calls is None:
        reply.retries -= 1
        reply.text(opener.start, opener.end)
        return
    closing = yield from cursor.after_space(_CLOSING, end)
    if closing is not None and closing.tag[2:] == opener.tag[1:]:
        end = closing.end
    cursor.pos = end
    start = opener.start
    for place, (name, arguments) in enumerate(calls):
        # one attempt spans the block; further ones of a list stand at its end, so that spans stay disjoint
        reply.well_formed(start if place == 0 else end, end, name, arguments, malformed=True)


def _calls(text: str) -> list[tuple[str | None, dict[str, Any] | None]] | None:
    try:
        value, decoded = decode_json(text)
    except NotJson:
        return None
    items = cast("list[object]", value) if isinstance(value, list) else [value]
    calls: list[tuple[str | None, dict[str, Any] | None]] = []
    for item in items:
        fields = cast("dict[str, Any]", item) if isinstance(item, dict) else {}
        if "name" not in fields or not ("arguments" in fields or "parameters" in fields):
            return None
        call = read_call_object(fields, decoded=decoded)
        calls.append((call.name, call.arguments))
    return calls or None


def take_wrapper(reply: Reply) -> str | None:
    """Cut a foreign opening tag from the end of the content, where a call without its own wrapper begins.

    Returns:
        the tag that closes it, or `None` when no such tag stands there.
    """
    spaces = 0
    while spaces <= _MAX_SPACES and spaces < len(reply.content) and reply.content[-1 - spaces].isspace():
        spaces += 1
    place = len(reply.content) - 1 - spaces
    if place < 0 or spaces > _MAX_SPACES:
        return None
    piece = reply.content[place]
    match = _TAG_BEFORE.search(piece, max(0, len(piece) - _LOOK_BACK))
    if match is None:
        return None
    reply.content[place:] = [piece[: match.start()]]
    return f"</{match.group(1)[1:]}"
