"""``<|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>{...}<|tool_call_end|>`` in a section."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from agent_env.plugin.parsing import (
    BlockParser,
    JsonCallTags,
    Tags,
    Token,
    cut_section,
    scan_json_call,
    scan_section,
    take_wrapper,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agent_env.plugin.parsing import Cursor, Reply, Scan, ToolTable

_BEGIN = "<|tool_call_begin|>"
_ARGUMENTS = "<|tool_call_argument_begin|>"
_END = "<|tool_call_end|>"
_SECTIONS = ("<|tool_calls_section_begin|>", "<|tool_call_section_begin|>")
_SECTION_ENDS = ("<|tool_calls_section_end|>", "<|tool_call_section_end|>")
_OPENS = Tags(_BEGIN)
_CLOSES = Tags(*_SECTION_ENDS)
_AFTER_ID = Tags(_ARGUMENTS, _END, _BEGIN, *_SECTION_ENDS, "</think>")
_CUT = Tags(_BEGIN, *_SECTION_ENDS)
_TAGS = JsonCallTags((_END,), (_BEGIN, *_SECTION_ENDS))
_ID = re.compile(r"(?:functions\.)?(.*):\d+", re.DOTALL)
_UNDERSCORE_ID = re.compile(r"functions_(.*)_\d+", re.DOTALL)


class KimiK2Parser(BlockParser):
    """The format of Kimi K2."""

    name = "kimi_k2"
    openers = (*_SECTIONS, _BEGIN)

    def block(self, cursor: Cursor, reply: Reply, opener: Token) -> Scan[None]:
        """A section, or a call that has none."""
        closes = _CLOSES
        malformed = False
        if opener.tag == _BEGIN:
            closing = take_wrapper(reply)
            if closing is not None:
                closes, malformed = Tags(closing, *_SECTION_ENDS), True
            cursor.pos = opener.start
        found = len(reply.calls)
        yield from scan_section(cursor, reply, _OPENS, closes, self._call, malformed=malformed)
        if len(reply.calls) == found:
            cut_section(cursor, reply, opener, _CUT)

    def _call(self, cursor: Cursor, reply: Reply, opener: Token, *, malformed: bool) -> Scan[None]:
        token = yield from cursor.find(_AFTER_ID)
        while token is not None and token.tag == "</think>" and reply.thought:
            token = yield from cursor.find(_AFTER_ID, token.end)
        if token is not None and token.tag == "</think>":
            cursor.pos = token.start
            return
        if token is None:
            reply.unclosed(opener.start, len(cursor.text))
            return
        name, known = _read_id(cursor.text[opener.end : token.start].strip(), reply.tools)
        if token.tag == _ARGUMENTS:
            yield from scan_json_call(
                cursor, reply, _TAGS, opener.start, token.end, name, malformed=malformed or not known
            )
        elif token.tag == _END:
            cursor.pos = token.end
            reply.well_formed(opener.start, token.end, name, {}, malformed=malformed or not known)
        else:
            reply.unclosed(opener.start, token.start, name if known else None)

    def render(self, calls: Sequence[Mapping[str, Any]]) -> str | None:
        """One section."""
        return (
            _SECTIONS[0]
            + "".join(
                f"{_BEGIN}functions.{call['name']}:{place}{_ARGUMENTS}"
                f"{json.dumps(call['arguments'], ensure_ascii=False)}{_END}"
                for place, call in enumerate(calls)
            )
            + _SECTION_ENDS[0]
        )


def _read_id(text: str, tools: ToolTable) -> tuple[str | None, bool]:
    """The name in a call's id, and whether the id has a known shape."""
    match = _ID.fullmatch(text) or _UNDERSCORE_ID.fullmatch(text)
    if match is not None:
        return match[1].strip(), True
    if not text:
        return None, True
    name = text.removeprefix("functions.")
    return (name if name in tools else None), False
