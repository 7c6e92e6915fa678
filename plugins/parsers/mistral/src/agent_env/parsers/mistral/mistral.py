"""``[TOOL_CALLS] [{"name": ..., "arguments": ...}]``, ``[TOOL_CALLS]NAME[ARGS]{...}``, ``[TOOL_CALLS]NAME{...}``."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from agent_env.plugin.parser import CallStatus
from agent_env.plugin.parsing import (
    BlockParser,
    NotJson,
    Tags,
    Token,
    decode_json,
    find_value_end,
    read_arguments_text,
    read_call_object,
    scan_scalar,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agent_env.plugin.parsing import Cursor, Reply, Scan

_OPEN = "[TOOL_CALLS]"
_OPENS = Tags(_OPEN)
_ARGS = Tags("[ARGS]")
_CALL_ID = Tags("[CALL_ID]")
_BRACKET = Tags("[")
_BRACE = Tags("{")
_NAME_END = re.compile(r"[^\w.\-:/]")
_ID_END = re.compile(r"[^\w.\-]")
_ITEM_END = re.compile(r'[,\]"]')
_LIMIT = 300
_NEXT_CALL = re.compile(r"\[TOOL_CALLS\]\s*+(?:[\w.\-]{1,100}(?:\[ARGS\]|\s*+\{)|\[\s*+\{)")


class MistralParser(BlockParser):
    """The formats of Mistral."""

    name = "mistral"
    openers = (_OPEN,)

    def block(self, cursor: Cursor, reply: Reply, opener: Token) -> Scan[None]:
        """The calls behind one token."""
        at = yield from cursor.skip_space(opener.end)
        if at == len(cursor.text):
            reply.unclosed(opener.start, at)
            return
        array = (yield from cursor.tag_at(_BRACKET, at)) is not None
        if array and (
            (yield from cursor.tag_at(_ARGS, at)) is not None
            or (yield from cursor.tag_at(_CALL_ID, at)) is not None
            or (yield from cursor.tag_at(_OPENS, at)) is not None
        ):
            array = False
        if array:
            yield from self._array(cursor, reply, opener, at)
        else:
            yield from self._compact(cursor, reply, opener, at)

    def _array(self, cursor: Cursor, reply: Reply, opener: Token, bracket: int) -> Scan[None]:
        """Call objects in a list; a broken one does not hide those behind it."""
        at = bracket + 1
        found = False
        while True:
            at = yield from cursor.skip_space(at)
            if at == len(cursor.text):
                cursor.pos = at
                if not found:
                    reply.unclosed(opener.start, at)
                return
            mark = cursor.text[at]
            if mark == "]":
                cursor.pos = at + 1
                return
            if mark == ",":
                at += 1
                continue
            if (yield from cursor.tag_at(_OPENS, at)) is not None:
                cursor.pos = at
                return
            start = opener.start if not found else at
            found = True
            if mark in "{[":
                end = yield from find_value_end(cursor, at, _OPENS)
            else:
                end = yield from scan_scalar(cursor, at, _ITEM_END)
            if end < 0:
                reply.unclosed(start, _broken_end(cursor, reply, at, end))
                return
            self._object(reply, start, end, cursor.text[at:end])
            at = end

    def _object(self, reply: Reply, start: int, end: int, text: str) -> None:
        try:
            value, decoded = decode_json(text)
        except NotJson:
            reply.call(CallStatus.INVALID_JSON, start, end)
            return
        call = read_call_object(value, decoded=decoded)
        reply.well_formed(start, end, call.name, call.arguments, decoded=call.decoded, malformed=not call.is_object)

    def _compact(self, cursor: Cursor, reply: Reply, opener: Token, at: int) -> Scan[None]:
        """A name, perhaps an id, and arguments."""
        name_end = yield from cursor.until(_NAME_END, at, _LIMIT)
        if name_end < 0:
            if len(cursor.text) < at + _LIMIT:
                reply.unclosed(opener.start, len(cursor.text))
            else:
                self._mention(cursor, reply, opener)
            return
        name = cursor.text[at:name_end]
        call_id = yield from cursor.tag_at(_CALL_ID, name_end)
        behind = name_end
        if call_id is not None:
            behind = yield from cursor.until(_ID_END, call_id.end, _LIMIT)
            if behind < 0:
                behind = len(cursor.text) if len(cursor.text) < call_id.end + _LIMIT else call_id.end
        marker = yield from cursor.after_space(_ARGS, behind)
        if marker is None:
            brace = yield from cursor.after_space(_BRACE, behind)
            if brace is None:
                stop = yield from cursor.skip_space(behind)
                rest = cursor.text[stop : stop + len("[CALL_ID]")]
                if stop == len(cursor.text) or any(tag.startswith(rest) for tag in ("[ARGS]", "[CALL_ID]")):
                    cut = name if rest or call_id is not None or stop > name_end else None
                    reply.unclosed(opener.start, len(cursor.text), cut)
                else:
                    self._mention(cursor, reply, opener)
                return
            begin = brace.start
        else:
            begin = yield from cursor.skip_space(marker.end)
        yield from self._arguments(cursor, reply, opener, name, begin)

    def _mention(self, cursor: Cursor, reply: Reply, opener: Token) -> None:
        """No call stands behind the token."""
        reply.call(CallStatus.MALFORMED_STRUCTURE, opener.start, opener.end)
        cursor.pos = opener.end

    def _arguments(self, cursor: Cursor, reply: Reply, opener: Token, name: str, begin: int) -> Scan[None]:
        mark = cursor.text[begin : begin + 1]
        if not mark:
            reply.unclosed(opener.start, len(cursor.text), name)
            return
        if mark in {"{", "["} and (yield from cursor.tag_at(_OPENS, begin)) is None:
            end = yield from find_value_end(cursor, begin, _OPENS)
            if end < 0:
                reply.unclosed(opener.start, _broken_end(cursor, reply, begin, end), name)
                return
        else:
            token = yield from cursor.find(_OPENS, begin)
            end = len(cursor.text) if token is None else token.start
            end = begin + len(cursor.text[begin:end].rstrip())
        cursor.pos = end
        text = cursor.text[begin:end]
        try:
            arguments, decoded = read_arguments_text(text)
        except NotJson:
            reply.call(CallStatus.INVALID_JSON, opener.start, end, name or None)
            return
        malformed = False
        if (
            not name
            and arguments is not None
            and "name" in arguments
            and arguments.keys() & {"arguments", "parameters"}
        ):
            call = read_call_object(arguments, decoded=decoded)
            name, arguments, decoded, malformed = call.name or "", call.arguments, call.decoded, True
        reply.well_formed(opener.start, end, name, arguments, decoded=decoded, malformed=malformed)

    def render(self, calls: Sequence[Mapping[str, Any]]) -> str | None:
        """The array."""
        objects = [{"name": call["name"], "arguments": call["arguments"]} for call in calls]
        return f"{_OPEN} {json.dumps(objects, ensure_ascii=False)}"


def _broken_end(cursor: Cursor, reply: Reply, start: int, end: int) -> int:
    """Where a value that is not closed ends: at the next call, even if a quote that is missing hides it."""
    if end < -1:
        return -2 - end
    match = _NEXT_CALL.search(cursor.text, start) if reply.retries > 0 else None
    if match is None:
        return len(cursor.text)
    reply.retries -= 1
    return match.start()
