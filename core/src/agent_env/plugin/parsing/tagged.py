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
        next_end: tag that closes the name of the next parameter, in place of ``next_rest``.
        end: tag that closes the call; `None` where the wrapper's does.
        wrapper_end: tags that close the wrapper.
        begin: tags that begin another call or wrapper.
        begin_next: tags of which one must follow those of ``begin``, white space between.
        begin_name: class of the characters that end a name which stands between those two; `None` = no name does.
    """

    def __init__(
        self,
        *,
        close: str,
        close_rest: str = ">",
        following: str,
        following_rest: str = "",
        following_end: str | None = None,
        end: str | None,
        wrapper_end: tuple[str, ...],
        begin: tuple[str, ...],
        begin_next: tuple[str, ...],
        begin_name: str | None = None,
    ) -> None:
        self.close = close
        self.close_rest = re.compile(close_rest)
        self.next = following
        self.next_rest = re.compile(following_rest)
        self.next_end = Tags(following_end) if following_end is not None else None
        self.end = end
        self.wrapper_end = wrapper_end
        self.begin = begin
        ends = (end,) if end is not None else ()
        self.all = Tags(close, following, *ends, *wrapper_end, *begin)
        self.after_close = Tags(following, *(ends or wrapper_end), *wrapper_end)
        self.after_end = Tags(*wrapper_end, *begin)
        self.begin_next = Tags(*begin_next)
        self.begin_name = re.compile(begin_name) if begin_name is not None else None


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
            tag = yield from tag_rest(cursor, tags.close_rest, token.end)
            if tag is None:
                continue
            at = rest = tag[2]
            if (yield from cursor.after_space(tags.after_close, rest)) is not None or (
                yield from cursor.only_space_after(rest)
            ):
                return ValueEnd(token.start, rest, "closed")
        elif token.tag == tags.next:
            if (yield from _is_next(cursor, tags, token)):
                return ValueEnd(token.start, token.start, "open")
        elif token.tag == tags.end:
            if (yield from cursor.after_space(tags.after_end, token.end)) is not None or (
                yield from cursor.only_space_after(token.end)
            ):
                return ValueEnd(token.start, token.start, "open")
            fallback = fallback or ValueEnd(token.start, token.start, "open")
        elif token.tag in tags.wrapper_end:
            fallback = fallback or ValueEnd(token.start, token.start, "open")
        elif (yield from _begins(cursor, tags, token)):
            return fallback or ValueEnd(token.start, token.start, "cut")


def _is_next(cursor: Cursor, tags: ValueTags, token: Token) -> Scan[bool]:
    """Whether the beginning of a parameter's tag is one, and not text in a value."""
    if tags.next_end is None:
        return (yield from tag_rest(cursor, tags.next_rest, token.end)) is not None
    stop = yield from cursor.until(TAG_END, token.end, TAG_LIMIT)
    return stop >= 0 and (yield from cursor.tag_at(tags.next_end, stop)) is not None


def _begins(cursor: Cursor, tags: ValueTags, token: Token) -> Scan[bool]:
    """Whether a tag that begins a call does so here, and is not text in a value."""
    at = token.end
    if tags.begin_name is not None:
        at = yield from cursor.skip_space(at)
        stop = yield from cursor.until(tags.begin_name, at, TAG_LIMIT)
        if stop <= at:
            return False
        at = stop
    return (yield from cursor.after_space(tags.begin_next, at)) is not None


def tag_rest(cursor: Cursor, pattern: re.Pattern[str], start: int) -> Scan[tuple[str, str, int] | None]:
    """The rest of a tag that begins with a literal, up to the first ``>``, ``<`` or line break.

    Returns:
        the first two groups of ``pattern`` and where it ends; `None` when it does not match.
    """
    stop = yield from cursor.until(TAG_END, start, TAG_LIMIT)
    match = pattern.match(cursor.text, start, stop + 1) if stop >= 0 else None
    if match is None:
        return None
    groups = [*match.groups(default=""), "", ""]
    return groups[0], groups[1], match.end()


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
