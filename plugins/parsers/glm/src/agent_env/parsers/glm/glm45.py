"""``<tool_call>NAME <arg_key>KEY</arg_key> <arg_value>VALUE</arg_value></tool_call>``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from agent_env.plugin.parsing import (
    BlockParser,
    NotJson,
    TaggedCall,
    Tags,
    Token,
    ValueTags,
    decode_json,
    decode_value,
    foreign_block,
    read_call_object,
    reads_again,
    render_value,
    scan_value,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agent_env.plugin.parsing import Cursor, Reply, Scan

_OPEN = "<tool_call>"
_CLOSE = "</tool_call>"
_KEY = "<arg_key>"
_KEY_END = "</arg_key>"
_VALUE = "<arg_value>"
_VALUE_END = "</arg_value>"
_THINK_END = "</think>"
_FOREIGN = ("<tool_calls>", "<tool>", "<function_call>", "<function_calls>", "<invoke>")
_INSIDE = Tags(_OPEN, _CLOSE, _KEY, _VALUE, _KEY_END, _VALUE_END, _THINK_END)
_INSIDE_FOREIGN = {tag: Tags(*_INSIDE.tags, f"</{tag[1:]}") for tag in _FOREIGN}
_KEY_TAG = Tags(_KEY)
_AFTER_KEY = Tags(_VALUE)
_NAME_END = r"[^\w.\-]"
_NAME_STOP = re.compile(_NAME_END)
_NAME_LIMIT = 300


_PLAIN_PAIR = re.compile(
    rf"\s*+{_KEY}([^<]{{1,200}}+){_KEY_END}\s*+{_VALUE}([^<]*+){_VALUE_END}(?=\s*+(?:{_KEY}|{_CLOSE}))"
)


def _value_tags(*closes: str) -> ValueTags:
    return ValueTags(
        close=_VALUE_END,
        close_rest="",
        following=_KEY,
        following_end=_KEY_END,
        end=None,
        wrapper_end=closes,
        begin=(_OPEN,),
        begin_next=(_KEY, _CLOSE),
        begin_name=_NAME_END,
    )


_VALUE_TAGS = _value_tags(_CLOSE)
_FOREIGN_VALUE_TAGS = {tag: _value_tags(_CLOSE, f"</{tag[1:]}") for tag in _FOREIGN}


class Glm45Parser(BlockParser):
    """The format of GLM 4.5."""

    name = "glm45"
    openers = (_OPEN, *_FOREIGN)

    def block(self, cursor: Cursor, reply: Reply, opener: Token) -> Scan[None]:
        """One call."""
        foreign = opener.tag != _OPEN
        if foreign and not (yield from self._in_foreign(cursor, opener)):
            yield from foreign_block(cursor, reply, opener)
            return
        inside = _INSIDE_FOREIGN[opener.tag] if foreign else _INSIDE
        values = _FOREIGN_VALUE_TAGS[opener.tag] if foreign else _VALUE_TAGS
        call = TaggedCall(opener.start, malformed=foreign)
        named = False
        while True:
            if named:
                self._plain_pairs(cursor, reply, call)
            token = yield from cursor.find(inside)
            if token is not None and token.tag == _THINK_END:
                if not reply.thought:
                    cursor.pos = token.start
                    return
                call.malformed = True
                cursor.pos = token.end
                continue
            if token is None:
                name = call.name if named else _whole_name(cursor.text[cursor.pos :])
                reply.unclosed(opener.start, len(cursor.text), name)
                return
            before = cursor.text[cursor.pos : token.start]
            if not named:
                named = True
                self._name(call, before)
            elif before.strip():
                call.malformed = True
            cursor.pos = token.end
            if token.tag == _OPEN:
                reply.unclosed(opener.start, token.start, call.name)
                cursor.pos = token.start
                return
            if token.tag in values.wrapper_end:
                reply.well_formed(
                    opener.start,
                    token.end,
                    call.name,
                    call.arguments,
                    decoded=call.decoded,
                    malformed=call.malformed,
                )
                return
            if token.tag != _KEY:
                call.malformed = True
                continue
            if (yield from self._pair(cursor, reply, call, values)):
                return

    def _in_foreign(self, cursor: Cursor, opener: Token) -> Scan[bool]:
        """Whether a call of this format stands in a wrapper of another one."""
        at = yield from cursor.skip_space(opener.end)
        stop = yield from cursor.until(_NAME_STOP, at, _NAME_LIMIT)
        return stop > at and (yield from cursor.after_space(_KEY_TAG, stop)) is not None

    def _name(self, call: TaggedCall, text: str) -> None:
        """The text before the first key: the name, which ends at the line break."""
        text = text.strip()
        if text[:1] in {"{", "["}:
            call.malformed = True
            try:
                value, decoded = decode_json(text)
            except NotJson:
                return
            read = read_call_object(value, decoded=decoded)
            call.name = read.name
            call.arguments.update(read.arguments or {})
            return
        call.name, _, rest = text.partition("\n")
        call.name = call.name.strip()
        call.malformed = call.malformed or bool(rest.strip())

    def _plain_pairs(self, cursor: Cursor, reply: Reply, call: TaggedCall) -> None:
        """Read pairs at the cursor in whose values no tag can stand: a short cut that changes no result."""
        while True:
            match = _PLAIN_PAIR.match(cursor.text, cursor.pos)
            key = match[1].strip() if match is not None else ""
            if match is None or not key:
                return
            call.put(key, decode_value(reply.tools.schema(call.name), key, match[2]))
            cursor.pos = match.end()

    def _pair(self, cursor: Cursor, reply: Reply, call: TaggedCall, values: ValueTags) -> Scan[bool]:
        """A key and its value, behind the key's opening tag; True when the text is cut in it."""
        token = yield from cursor.find(_INSIDE)
        if token is None:
            reply.unclosed(call.start, len(cursor.text), call.name)
            return True
        if token.tag != _KEY_END:
            call.malformed = True
            cursor.pos = token.start
            return False
        key = cursor.text[cursor.pos : token.start].strip()
        cursor.pos = token.end
        opening = yield from cursor.after_space(_AFTER_KEY, token.end)
        if opening is None:
            call.malformed = True
            return False
        value = yield from scan_value(cursor, values, opening.end)
        if value.how == "cut":
            reply.unclosed(call.start, value.end, call.name)
            return True
        call.malformed = call.malformed or not key or value.how == "open"
        cursor.pos = value.after
        text = cursor.text[opening.end : value.end]
        call.put(key, decode_value(reply.tools.schema(call.name), key, text))
        return False

    def render(self, calls: Sequence[Mapping[str, Any]]) -> str | None:
        """One block a call; `None` when a name or value cannot be written so that it is read again."""
        blocks: list[str] = []
        for call in calls:
            lines = [f"{_OPEN}{call['name']}"]
            for key, value in call["arguments"].items():
                lines += [f"{_KEY}{key}{_KEY_END}", f"{_VALUE}{render_value(value)}{_VALUE_END}"]
            blocks.append("\n".join([*lines, _CLOSE]))
        text = "\n".join(blocks)
        return text if reads_again(self, text, calls) else None


def _whole_name(text: str) -> str | None:
    """The name of a call that was cut, when its line is over."""
    name, line_break, _ = text.lstrip().partition("\n")
    return name.strip() if line_break and name[:1] not in {"{", "["} else None
