"""Formats in which a call is tags: a wrapper, in it calls with a name, in those parameters with a name and a text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar, cast

from agent_env.plugin.parsing.calls import as_arguments, read_call_object
from agent_env.plugin.parsing.cursor import Tags, Token
from agent_env.plugin.parsing.foreign import take_wrapper
from agent_env.plugin.parsing.jsonvalue import NotJson, decode_json
from agent_env.plugin.parsing.render import reads_again
from agent_env.plugin.parsing.schema import decode_json_value, decode_value
from agent_env.plugin.parsing.tagged import TAG_END, TAG_LIMIT, TaggedCall, ValueTags, scan_value, tag_rest
from agent_env.plugin.parsing.walk import THINK_END, BlockParser, cut_in_section

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agent_env.plugin.parsing.cursor import Cursor, Scan
    from agent_env.plugin.parsing.reply import Reply


class TagParser(BlockParser):
    """A format of tags; a subclass says which.

    Attributes:
        wrappers: opening tags of the wrapper.
        wrapper_ends: their closing tags.
        call_open: beginning of the tag that opens a call, up to the name.
        call_rest: the rest of that tag; its first group is the name.
        call_close: the tag that closes a call.
        parameter_open: beginning of the tag that opens a parameter, up to its name.
        parameter_rest: the rest of that tag; groups: the name, and ``true`` or ``false`` where the tag says whether
            the value is a string.
        parameter_close: beginning of the tag that closes a parameter.
        parameter_close_rest: the rest of that tag.
        bare_calls: a call without the wrapper is right (else it is flagged).
        repairs_closing: a value whose closing tag is missing ends at the next tag and is right (else it is flagged).
        trims_newline: one newline on each side of a value belongs to the format.
        wrapper_is_section: the wrapper holds any number of calls, and a call is whole without the wrapper's end.
    """

    wrappers: ClassVar[tuple[str, ...]]
    wrapper_ends: ClassVar[tuple[str, ...]]
    call_open: ClassVar[str]
    call_rest: ClassVar[str]
    call_close: ClassVar[str]
    parameter_open: ClassVar[str]
    parameter_rest: ClassVar[str]
    parameter_close: ClassVar[str]
    parameter_close_rest: ClassVar[str] = ">"
    bare_calls: ClassVar[bool] = True
    repairs_closing: ClassVar[bool] = False
    trims_newline: ClassVar[bool] = False
    wrapper_is_section: ClassVar[bool] = True

    def __init_subclass__(cls) -> None:
        cls.openers = (*cls.wrappers, cls.call_open)
        super().__init_subclass__()
        begins = (*cls.wrappers, cls.call_open)
        cls._call_rest = re.compile(cls.call_rest)
        cls._parameter_rest = re.compile(cls.parameter_rest)
        cls._in_wrapper = Tags(*cls.wrapper_ends, *begins, cls.parameter_open, THINK_END)
        cls._in_call = Tags(*cls.wrapper_ends, *begins, cls.call_close, cls.parameter_open, THINK_END)
        cls._after_call = Tags(*cls.wrapper_ends, *begins, THINK_END)
        cls._bare_next = Tags(cls.parameter_open, cls.call_close)
        cls._wrapper_end = Tags(*cls.wrapper_ends)
        cls._call_tag = Tags(cls.call_open)
        follows = "|".join(re.escape(tag) for tag in (cls.parameter_open, cls.call_close, *cls.wrapper_ends))
        cls._plain_parameter = re.compile(
            rf"\s*+{re.escape(cls.parameter_open)}(?:{cls.parameter_rest})([^<]*+)"
            rf"{re.escape(cls.parameter_close)}(?:{cls.parameter_close_rest})(?=\s*+(?:{follows}))"
        )
        cls._value_tags = ValueTags(
            close=cls.parameter_close,
            close_rest=cls.parameter_close_rest,
            following=cls.parameter_open,
            following_rest=cls.parameter_rest,
            end=cls.call_close,
            wrapper_end=cls.wrapper_ends,
            begin=begins,
            begin_next=(cls.call_open, *cls._bare_next.tags),
        )

    _call_rest: ClassVar[re.Pattern[str]]
    _parameter_rest: ClassVar[re.Pattern[str]]
    _in_wrapper: ClassVar[Tags]
    _in_call: ClassVar[Tags]
    _after_call: ClassVar[Tags]
    _bare_next: ClassVar[Tags]
    _wrapper_end: ClassVar[Tags]
    _call_tag: ClassVar[Tags]
    _plain_parameter: ClassVar[re.Pattern[str]]
    _value_tags: ClassVar[ValueTags]

    def block(self, cursor: Cursor, reply: Reply, opener: Token) -> Scan[None]:
        """A wrapper with calls, or a call that has none."""
        if opener.tag in self.wrappers:
            yield from self._wrapper(cursor, reply, opener)
        else:
            yield from self._bare(cursor, reply, opener)

    def _wrapper(self, cursor: Cursor, reply: Reply, opener: Token) -> Scan[None]:
        """Calls up to the wrapper's end."""
        first = True
        while True:
            token = yield from cursor.find(self._in_wrapper)
            if token is not None and token.tag == THINK_END and reply.thought:
                cursor.pos = token.end
                continue
            if token is None or token.tag in self.wrappers:
                end = len(cursor.text) if token is None else token.start
                if first:
                    reply.unclosed(opener.start, end)
                elif token is None:
                    cut_in_section(cursor, reply, self._call_tag, self._in_wrapper)
                else:
                    reply.between(cursor.pos, end)
                    cursor.pos = end
                return
            if token.tag == THINK_END:
                cursor.pos = token.start
                return
            if token.tag in self.wrapper_ends:
                if first:
                    self._no_call(cursor, reply, opener, token)
                else:
                    reply.between(cursor.pos, token.start)
                cursor.pos = token.end
                return
            start = yield from self._start(cursor, reply, opener, token, first=first)
            first = False
            closed = yield from self._call(cursor, reply, start, token, wrapped=True, malformed=False)
            if closed:
                return

    def _start(self, cursor: Cursor, reply: Reply, opener: Token, token: Token, *, first: bool) -> Scan[int]:
        """Where a call in the wrapper starts; the text before it stays."""
        if token.tag == self.parameter_open:  # a call without a tag that names it, or with one that cannot be read
            return opener.start if first else (yield from cursor.skip_space(cursor.pos))
        text_before = bool(cursor.text[cursor.pos : token.start].strip())
        reply.between(cursor.pos, token.start)
        return token.start if text_before or self.wrapper_is_section or not first else opener.start

    def _no_call(self, cursor: Cursor, reply: Reply, opener: Token, closer: Token) -> None:
        """A closed wrapper in which no call stands: perhaps one written in JSON."""
        body = cursor.text[opener.end : closer.start]
        name, arguments = None, None
        try:
            value, decoded = decode_json(body)
        except NotJson:
            malformed = bool(body.strip())
        else:
            call = read_call_object(value, decoded=decoded)
            name, arguments, malformed = call.name, call.arguments, True
        if malformed:
            reply.well_formed(opener.start, closer.end, name, arguments, malformed=True)
        elif not self.wrapper_is_section:
            reply.well_formed(opener.start, closer.end, None, None)

    def _bare(self, cursor: Cursor, reply: Reply, opener: Token) -> Scan[None]:
        """A call without the wrapper, perhaps in one of another format. Without a parameter or an end it is text."""
        rest = yield from tag_rest(cursor, self._call_rest, opener.end)
        inner = (yield from cursor.after_space(self._bare_next, rest[2])) if rest is not None else None
        if inner is None:
            reply.text(opener.start, opener.end)
            return
        closing = take_wrapper(reply)
        malformed = closing is not None or not self.bare_calls
        closings = Tags(closing) if closing is not None else self._wrapper_end
        token = opener
        while True:
            ended = yield from self._call(cursor, reply, token.start, token, wrapped=False, malformed=malformed)
            if ended:
                return
            end = yield from cursor.after_space(closings, cursor.pos)
            if end is not None:
                cursor.pos = end.end
                return
            if closing is None:
                return
            again = yield from cursor.after_space(self._call_tag, cursor.pos)
            if again is None:
                return
            token = again
            cursor.pos = again.end

    def _call(
        self, cursor: Cursor, reply: Reply, start: int, opener: Token, *, wrapped: bool, malformed: bool
    ) -> Scan[bool]:
        """One call; True when the block is over with it (its end was read, or it has none)."""
        call = TaggedCall(start, malformed=malformed)
        cursor.pos = opener.start
        if opener.tag == self.call_open:
            rest = yield from tag_rest(cursor, self._call_rest, opener.end)
            stop = yield from cursor.until(TAG_END, opener.end, TAG_LIMIT)
            if stop < 0 and len(cursor.text) < opener.end + TAG_LIMIT:
                reply.unclosed(start, len(cursor.text))
                return True
            call.name = rest[0].strip() if rest is not None else None
            call.malformed = call.malformed or rest is None
            cursor.pos = rest[2] if rest is not None else opener.end
        while True:
            self._plain_parameters(cursor, reply, call)
            token = yield from cursor.find(self._in_call)
            if token is not None and token.tag == THINK_END:
                if not reply.thought:
                    cursor.pos = token.start
                    return True
                call.malformed = True
                cursor.pos = token.end
                continue
            if token is None or token.tag in self.openers:
                reply.unclosed(start, len(cursor.text) if token is None else token.start, call.name)
                return True
            self._stray(call, cursor.text[cursor.pos : token.start])
            cursor.pos = token.end
            if token.tag == self.parameter_open:
                cut = yield from self._parameter(cursor, reply, call)
                if cut:
                    return True
                continue
            if token.tag in self.wrapper_ends:  # the call's own closing tag is missing
                call.malformed = call.malformed or not self.repairs_closing
                self._report(reply, call, token.end)
                return True
            return (yield from self._after(cursor, reply, call, wrapped=wrapped))

    def _plain_parameters(self, cursor: Cursor, reply: Reply, call: TaggedCall) -> None:
        """Read parameters at the cursor in whose values no tag can stand: a short cut that changes no result."""
        while True:
            cursor.steps += 1
            match = self._plain_parameter.match(cursor.text, cursor.pos)
            if match is None:
                return
            key = match[1].strip()
            if not key or match.end(1) - match.start(1) > _PLAIN_KEY:
                return
            text = match[match.re.groups]
            if self.trims_newline:
                text = _one_newline_less(text)
            is_string = (match[2] or "") if match.re.groups > 2 else ""
            call.put(key, self._decode(reply, call.name, key, is_string, text))
            cursor.pos = match.end()

    def _after(self, cursor: Cursor, reply: Reply, call: TaggedCall, *, wrapped: bool) -> Scan[bool]:
        """The call is closed: is its wrapper closed, too?"""
        end = cursor.pos
        if not wrapped or self.wrapper_is_section:
            self._report(reply, call, end)
            return False
        closer = yield from cursor.after_space(self._wrapper_end, end)
        if closer is not None:
            cursor.pos = closer.end
            self._report(reply, call, closer.end)
            return True
        token = yield from cursor.find(self._after_call)
        while token is not None and token.tag == THINK_END and reply.thought:
            token = yield from cursor.find(self._after_call, token.end)
        if token is None or token.tag in self.wrappers:
            arguments = call.arguments if call.decoded and not call.malformed else None
            stop = yield from cursor.skip_space(end)
            if token is None and self._after_call.partial(cursor.text, stop) == stop:
                end = len(cursor.text)  # nothing stands behind the call but perhaps a tag that is cut
            reply.unclosed(call.start, end, call.name, arguments)
            return True
        self._report(reply, call, end)
        return False

    def _parameter(self, cursor: Cursor, reply: Reply, call: TaggedCall) -> Scan[bool]:
        """One parameter, behind the beginning of its tag; True when the call is cut in it."""
        rest = yield from tag_rest(cursor, self._parameter_rest, cursor.pos)
        if rest is None:
            call.malformed = True
            return False
        key, is_string, begin = rest
        value = yield from scan_value(cursor, self._value_tags, begin)
        if value.how == "cut":
            reply.unclosed(call.start, value.end, call.name)
            return True
        call.malformed = call.malformed or not key.strip() or (value.how == "open" and not self.repairs_closing)
        text = cursor.text[begin : value.end]
        if self.trims_newline:
            text = _one_newline_less(text)
        cursor.pos = value.after
        call.put(key.strip(), self._decode(reply, call.name, key.strip(), is_string, text))
        return False

    def _decode(self, reply: Reply, name: str | None, key: str, is_string: str, text: str) -> tuple[Any, bool]:
        if is_string == "true":
            return text, True
        schema = reply.tools.schema(name)
        return decode_json_value(schema, key, text) if is_string else decode_value(schema, key, text)

    def _stray(self, call: TaggedCall, text: str) -> None:
        """Text in a call that is in no parameter: flagged; an object is taken for the arguments."""
        if not text or text.isspace():
            return
        call.malformed = True
        try:
            value, _ = decode_json(text)
        except NotJson:
            return
        if isinstance(value, dict):
            call.arguments.update(as_arguments(cast("dict[str, Any]", value))[0] or {})

    def only_if_read_again(self, text: str, calls: Sequence[Mapping[str, Any]]) -> str | None:
        """``text`` when parsing it gives ``calls`` again; `None` when a name or value cannot be written like this."""
        return text if reads_again(self, text, calls) else None

    def _report(self, reply: Reply, call: TaggedCall, end: int) -> None:
        reply.well_formed(call.start, end, call.name, call.arguments, decoded=call.decoded, malformed=call.malformed)


_PLAIN_KEY = 200


def _one_newline_less(text: str) -> str:
    """Without one line break at each side."""
    if text.startswith("\n"):
        text = text[1:]
    elif text.startswith("\r\n"):
        text = text[2:]
    if text.endswith("\r\n"):
        return text[:-2]
    return text[:-1] if text.endswith("\n") else text
