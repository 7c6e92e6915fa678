"""The formats of V3 (``function``, name, fenced JSON) and V3.1 (name, JSON) between tool call tokens."""

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

    from agent_env.plugin.parsing import Cursor, Reply, Scan

_SECTION = "<\uff5ctool▁calls▁begin\uff5c>"
_SECTION_END = "<\uff5ctool▁calls▁end\uff5c>"
_BEGIN = "<\uff5ctool▁call▁begin\uff5c>"
_SEPARATOR = "<\uff5ctool▁sep\uff5c>"
_END = "<\uff5ctool▁call▁end\uff5c>"
_OPENS = Tags(_BEGIN)
_CLOSES = Tags(_SECTION_END)
_HEAD = Tags(_SEPARATOR, _END, _BEGIN, _SECTION_END, "</think>")
_CUT = Tags(_BEGIN, _SECTION_END)
_TAGS = JsonCallTags((_END,), (_BEGIN, _SECTION_END))
_NAME_END = re.compile(r"[\n`{<]")
_NAME_LIMIT = 300
_FENCE = re.compile(r"`{3,}[ \t]*\w*")


class DeepSeekV31Parser(BlockParser):
    """The format of DeepSeek V3.1."""

    name = "deepseek_v31"
    openers = (_SECTION, _BEGIN)

    def block(self, cursor: Cursor, reply: Reply, opener: Token) -> Scan[None]:
        """A section, or a call that has none."""
        closes = _CLOSES
        malformed = False
        if opener.tag == _BEGIN:
            closing = take_wrapper(reply)
            if closing is not None:
                closes, malformed = Tags(closing, _SECTION_END), True
            cursor.pos = opener.start
        found = len(reply.calls)
        yield from scan_section(cursor, reply, _OPENS, closes, self.call, malformed=malformed)
        if len(reply.calls) == found:
            cut_section(cursor, reply, opener, _CUT)

    def call(self, cursor: Cursor, reply: Reply, opener: Token, *, malformed: bool) -> Scan[None]:
        """One call, behind its opening token."""
        token = yield from cursor.find(_HEAD)
        while token is not None and token.tag == "</think>" and reply.thought:
            token = yield from cursor.find(_HEAD, token.end)
        if token is not None and token.tag == "</think>":
            cursor.pos = token.start
        elif token is None:
            reply.unclosed(opener.start, len(cursor.text))
        elif token.tag == _SEPARATOR:
            yield from self.arguments(cursor, reply, opener, token, malformed=malformed)
        elif token.tag == _END:  # nothing separates a name from arguments
            cursor.pos = token.end
            text = cursor.text[opener.end : token.start].strip()
            name = text if text in reply.tools else None
            reply.well_formed(opener.start, token.end, name, None, malformed=bool(text) or malformed)
        else:
            reply.unclosed(opener.start, token.start)

    def arguments(
        self, cursor: Cursor, reply: Reply, opener: Token, separator: Token, *, malformed: bool
    ) -> Scan[None]:
        """What stands behind the separator."""
        name = cursor.text[opener.end : separator.start].strip()
        if name == "function" and name not in reply.tools:  # the format of V3
            yield from _fenced(cursor, reply, opener, separator, malformed=True)
            return
        yield from scan_json_call(cursor, reply, _TAGS, opener.start, separator.end, name, malformed=malformed)

    def render(self, calls: Sequence[Mapping[str, Any]]) -> str | None:
        """One section."""
        written = "".join(self.render_call(call["name"], _json(call["arguments"])) for call in calls)
        return f"{_SECTION}{written}{_SECTION_END}"

    def render_call(self, name: str, arguments: str) -> str:
        """One call in a section."""
        return f"{_BEGIN}{name}{_SEPARATOR}{arguments}{_END}"


class DeepSeekV3Parser(DeepSeekV31Parser):
    """The format of DeepSeek V3 and R1."""

    name = "deepseek_v3"

    def arguments(
        self, cursor: Cursor, reply: Reply, opener: Token, separator: Token, *, malformed: bool
    ) -> Scan[None]:
        """The name up to the line's end, then the arguments in a code fence."""
        yield from _fenced(cursor, reply, opener, separator, malformed=malformed)

    def render_call(self, name: str, arguments: str) -> str:
        """One call in a section."""
        return f"{_BEGIN}function{_SEPARATOR}{name}\n```json\n{arguments}\n```{_END}"


def _fenced(cursor: Cursor, reply: Reply, opener: Token, separator: Token, *, malformed: bool) -> Scan[None]:
    """The name up to the line's end, then the arguments in a code fence."""
    stop = yield from cursor.until(_NAME_END, separator.end, _NAME_LIMIT)
    if stop < 0 and len(cursor.text) < separator.end + _NAME_LIMIT:
        reply.unclosed(opener.start, len(cursor.text))
        return
    if stop < 0:
        stop, malformed = separator.end, True
    name = cursor.text[separator.end : stop].strip()
    kind = cursor.text[opener.end : separator.start].strip()
    if not name and kind in reply.tools:  # the format of V3.1
        name, malformed = kind, True
    yield from scan_json_call(
        cursor,
        reply,
        _TAGS,
        opener.start,
        stop,
        name,
        malformed=malformed,
        strip=_without_fence,
        after="```",
    )


def _without_fence(text: str) -> str:
    """The text in a code fence; the text itself where there is none."""
    text = text.strip()
    match = _FENCE.match(text)
    if match is None:
        return text
    return text[match.end() :].rstrip().removesuffix("```").strip()


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
