"""``<|python_tag|>{"name": ..., "parameters": {...}}; {...}``, or one object that is the whole reply."""

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
    read_call_object,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agent_env.plugin.parsing import Cursor, Reply, Scan

_TAG = "<|python_tag|>"
_TAGS = Tags(_TAG)
_BRACKETS = Tags("{", "[")
_SEPARATOR = Tags(";")
_NEXT_CALL = re.compile(r';\s*+\{\s*+"name"\s*+:')
_NAME_KEY = re.compile(r'"name"\s*:')
_PARAMETERS_KEY = re.compile(r'"parameters"\s*:')


class Llama3JsonParser(BlockParser):
    """The JSON format of Llama 3."""

    name = "llama3_json"
    openers = (_TAG,)

    def block(self, cursor: Cursor, reply: Reply, opener: Token) -> Scan[None]:
        """Objects behind the tag, with semicolons between them."""
        start = opener.start
        at = opener.end
        found = False
        while True:
            bracket = yield from cursor.after_space(_BRACKETS, at)
            if bracket is None:
                if not found:
                    yield from self._no_object(cursor, reply, opener)
                return
            end = yield from find_value_end(cursor, bracket.start)
            end = self._hidden_next(cursor, reply, bracket.start, end)
            if end < 0:
                reply.unclosed(bracket.start if found else start, len(cursor.text))
                return
            self._object(reply, bracket.start if found else start, end, cursor.text[bracket.start : end])
            found = True
            cursor.pos = at = end
            separator = yield from cursor.after_space(_SEPARATOR, end)
            if separator is not None and (
                (yield from cursor.after_space(_BRACKETS, separator.end)) is not None
                or (yield from cursor.only_space_after(separator.end))
            ):
                cursor.pos = at = separator.end

    def _hidden_next(self, cursor: Cursor, reply: Reply, start: int, end: int) -> int:
        """Where a broken object ends when a quote that is missing hides the object behind it."""
        text = cursor.text
        match = _NEXT_CALL.search(text, start, end if end >= 0 else len(text)) if reply.retries > 0 else None
        if match is None:
            return end
        if end >= 0:
            try:
                decode_json(text[start:end])
            except NotJson:
                pass
            else:
                return end
        reply.retries -= 1
        return match.start()

    def _no_object(self, cursor: Cursor, reply: Reply, opener: Token) -> Scan[None]:
        """Something else than JSON stands behind the tag, up to the next one."""
        token = yield from cursor.find(_TAGS, opener.end)
        end = len(cursor.text) if token is None else token.start
        if not cursor.text[opener.end : end].strip():
            reply.unclosed(opener.start, end)
            return
        if token is None and not reply.thought and "</think>" in cursor.text[opener.end :]:
            reply.unclosed(opener.start, end)  # the tag was only mentioned while thinking
            return
        cursor.pos = end
        reply.call(CallStatus.INVALID_JSON, opener.start, end)

    def _object(self, reply: Reply, start: int, end: int, text: str) -> None:
        try:
            value, decoded = decode_json(text)
        except NotJson:
            reply.call(CallStatus.INVALID_JSON, start, end)
            return
        call = read_call_object(value, decoded=decoded)
        reply.well_formed(start, end, call.name, call.arguments, decoded=call.decoded, malformed=not call.is_object)

    def end(self, cursor: Cursor, reply: Reply) -> None:
        """Without the tag, a reply that is one object with a name and parameters is a call."""
        if reply.calls:
            return
        content = "".join(reply.content).strip()
        if not content.startswith("{") or not (_NAME_KEY.search(content) and _PARAMETERS_KEY.search(content)):
            return
        start = cursor.text.find(content)
        if start < 0:  # reasoning stands in it
            return
        end = start + len(content)
        try:
            value, decoded = decode_json(content)
        except NotJson:
            self._broken(cursor, reply, start, end)
            return
        if "name" in value and "parameters" in value:
            reply.content.clear()
            call = read_call_object(value, decoded=decoded)
            reply.well_formed(start, end, call.name, call.arguments, decoded=call.decoded)

    def _broken(self, cursor: Cursor, reply: Reply, start: int, end: int) -> None:
        """An object that is not JSON, and yet shows both keys: cut, or broken, if it is the whole reply."""
        walk = find_value_end(_part(cursor, start, end), 0)
        stop = -1
        try:
            while True:
                next(walk)
        except StopIteration as over:
            stop = over.value
        if stop == -1:
            reply.content.clear()
            reply.call(CallStatus.UNCLOSED_BLOCK, start, len(cursor.text))
        elif stop == end - start:
            reply.content.clear()
            reply.call(CallStatus.INVALID_JSON, start, end)

    def render(self, calls: Sequence[Mapping[str, Any]]) -> str | None:
        """The objects behind the tag."""
        return _TAG + "; ".join(
            json.dumps({"name": call["name"], "parameters": call["arguments"]}, ensure_ascii=False) for call in calls
        )


def _part(cursor: Cursor, start: int, end: int) -> Cursor:
    return type(cursor)(cursor.text[start:end], ended=True)
