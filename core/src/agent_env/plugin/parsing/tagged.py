"""Values between tags, where nothing is escaped: which closing tag is the one that closes?"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from agent_env.plugin.parsing.cursor import Tags

if TYPE_CHECKING:
    from agent_env.plugin.parsing.cursor import Cursor, Scan, Token


class ValueTags:
    """The tags around and behind a value.

    Attributes:
        close: beginning of the tag that closes the value.
        close_rest: what may stand behind that beginning.
        next: beginning of the tag of the next parameter.
        next_rest: what must stand behind that beginning to make it one.
        end: tag that closes the call; `None` where the wrapper's does.
        wrapper_end: tags that close the wrapper.
        begin: tags that begin another call or wrapper.
        begin_next: tags of which one must follow those of ``begin``, white space between; empty = anything.
    """

    def __init__(
        self,
        *,
        close: str,
        close_rest: str = ">",
        following: str,
        following_rest: str,
        end: str | None,
        wrapper_end: tuple[str, ...],
        begin: tuple[str, ...],
        begin_next: tuple[str, ...] = (),
    ) -> None:
        self.close = close
        self.close_rest = re.compile(close_rest)
        self.next = following
        self.next_rest = re.compile(following_rest)
        self.end = end
        self.wrapper_end = wrapper_end
        self.begin = begin
        ends = (end,) if end is not None else ()
        self.all = Tags(close, following, *ends, *wrapper_end, *begin)
        self.after_close = Tags(following, *(ends or wrapper_end), *wrapper_end)
        self.after_end = Tags(*wrapper_end, *begin)
        self.begin_next = Tags(*begin_next) if begin_next else None


class ValueEnd(NamedTuple):
    """Where a value ends.

    Attributes:
        end: end of the value's text.
        after: where the text goes on.
        how: ``"closed"`` by its tag; ``"open"``: the tag is missing and the value ends before the next one;
            ``"cut"``: the text, or a new call, comes before any end.
    """

    end: int
    after: int
    how: Literal["closed", "open", "cut"]


TAG_LIMIT = 300
TAG_END = re.compile(r"[>\n<]")


def scan_value(cursor: Cursor, tags: ValueTags, start: int) -> Scan[ValueEnd]:
    """Find the end of a value that begins at ``start``.

    A closing tag counts where the next tag or the text's end follows it, so a literal one in the value is text.
    """
    fallback: ValueEnd | None = None
    at = start
    while True:
        token = yield from cursor.find(tags.all, at)
        if token is None:
            return fallback or ValueEnd(len(cursor.text), len(cursor.text), "cut")
        at = token.end
        if token.tag == tags.close:
            rest = yield from _rest(cursor, tags.close_rest, token.end)
            if rest < 0:
                continue
            at = rest
            if (yield from cursor.after_space(tags.after_close, rest)) is not None or (
                yield from cursor.only_space_after(rest)
            ):
                return ValueEnd(token.start, rest, "closed")
        elif token.tag == tags.next:
            if (yield from _rest(cursor, tags.next_rest, token.end)) >= 0:
                return ValueEnd(token.start, token.start, "open")
        elif token.tag == tags.end:
            if (yield from cursor.after_space(tags.after_end, token.end)) is not None or (
                yield from cursor.only_space_after(token.end)
            ):
                return ValueEnd(token.start, token.start, "open")
            fallback = fallback or ValueEnd(token.start, token.start, "open")
        elif token.tag in tags.wrapper_end:
            fallback = fallback or ValueEnd(token.start, token.start, "open")
        elif fallback is not None or (yield from _begins(cursor, tags, token)):
            return fallback or ValueEnd(token.start, token.start, "cut")


def _begins(cursor: Cursor, tags: ValueTags, token: Token) -> Scan[bool]:
    """Whether a tag that begins a call does so here, and is not text in a value."""
    if tags.begin_next is None:
        return False
    return (yield from cursor.after_space(tags.begin_next, token.end)) is not None


def _rest(cursor: Cursor, pattern: re.Pattern[str], start: int) -> Scan[int]:
    """The place after ``pattern`` at ``start``, or -1. What it matches ends at the first ``>`` or line break."""
    stop = yield from cursor.until(TAG_END, start, TAG_LIMIT)
    if stop < 0:
        return -1
    match = pattern.match(cursor.text, start, stop + 1)
    return match.end() if match is not None else -1


def tag_rest(cursor: Cursor, pattern: re.Pattern[str], start: int) -> Scan[tuple[str, str, int] | None]:
    """The rest of a tag that begins with a literal: its first two groups and where it ends; `None` for no such tag."""
    end = yield from _rest(cursor, pattern, start)
    if end < 0:
        return None
    match = pattern.match(cursor.text, start, end)
    if match is None:
        return None
    groups = [*match.groups(default=""), "", ""]
    return groups[0], groups[1], end


@dataclass
class TaggedCall:
    """A call as it is read from tags.

    Attributes:
        start: where it starts.
        name: its name, when it was read.
        arguments: what was read.
        decoded: every value fits its type.
        malformed: something stands where it must not, or is missing.
    """

    start: int
    name: str | None = None
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    decoded: bool = True
    malformed: bool = False

    def put(self, key: str, value: tuple[Any, bool]) -> None:
        """Take a decoded value."""
        self.arguments[key] = value[0]
        self.decoded = self.decoded and value[1]
