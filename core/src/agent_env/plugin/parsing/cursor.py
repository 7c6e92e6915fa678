"""The text of a reply as far as it has arrived, and how to look for tags in it."""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import NamedTuple, TypeAlias, TypeVar

T = TypeVar("T")
#: A walk that stops (``yield``) where it needs more text, and in the end returns a ``T``.
Scan: TypeAlias = Generator[None, None, T]

_SPACE = re.compile(r"\s*+")


#: Keeps the work linear.
MAX_RESCUES = 64


class Token(NamedTuple):
    """A tag that stands in the text.

    Attributes:
        tag: the tag itself.
        start: where it starts.
        end: where it ends.
    """

    tag: str
    start: int
    end: int


class Tags:
    """Literal tags that are looked for together.

    A tag must not hold, after its first character, a character with which one of the tags starts: then only the last
    such character of an unfinished text can be the start of a tag that is not whole yet. No tag may be the start of
    another.
    """

    def __init__(self, *tags: str) -> None:
        self.tags = tuple(dict.fromkeys(tags))
        self.firsts = "".join(sorted({tag[0] for tag in self.tags}))
        self.longest = max(len(tag) for tag in self.tags)
        for tag in self.tags:
            if any(first in tag[1:] for first in self.firsts):
                raise ValueError(f"tag {tag!r} holds a character with which a tag starts")
            if any(tag != other and other.startswith(tag) for other in self.tags):
                raise ValueError(f"tag {tag!r} is the start of another tag")
        self.pattern = re.compile("|".join(re.escape(tag) for tag in self.tags))
        self._prefixes = frozenset(tag[:end] for tag in self.tags for end in range(1, len(tag)))

    def may_grow(self, text: str, start: int) -> bool:
        """Whether the text from ``start`` to its end is the beginning of a tag."""
        return len(text) - start < self.longest and text[start:] in self._prefixes

    def partial(self, text: str, start: int) -> int:
        """Where a tag begins that the end of the text cuts, not before ``start``; the text's end when none does."""
        last = max(text.rfind(first, max(start, len(text) - self.longest + 1)) for first in self.firsts)
        return last if last >= 0 and self.may_grow(text, last) else len(text)


class Cursor:
    """A reply's text and the place up to which it is read.

    Attributes:
        text: what has arrived. Do not keep a reference (nor a match of `re`) over a ``yield``: the text then has to
            be copied for every piece.
        pos: everything before it is dealt with.
        ended: no more text comes.
        rescues: how often a call may still be ended inside a string that was read to its end in vain.
        steps: number of searches made, for tests that hold the work to be linear.
    """

    __slots__ = ("ended", "pos", "rescues", "steps", "text")

    def __init__(self, text: str = "", *, ended: bool = False) -> None:
        self.text = text
        self.pos = 0
        self.ended = ended
        self.steps = 0
        self.rescues = MAX_RESCUES

    def append(self, piece: str) -> None:
        """Take more text. A local name that is the only reference lets CPython grow the string where it is."""
        text = self.text
        self.text = ""
        text += piece
        self.text = text

    def find(self, tags: Tags, start: int | None = None) -> Scan[Token | None]:
        """The first of the tags at or after ``start`` (default: the cursor); `None` at the end of the text."""
        at = self.pos if start is None else start
        while True:
            self.steps += 1
            match = tags.pattern.search(self.text, at)
            if match is not None:
                return Token(match.group(), match.start(), match.end())
            if self.ended:
                return None
            at = tags.partial(self.text, at)
            del match
            yield

    def skip_space(self, start: int) -> Scan[int]:
        """The first place at or after ``start`` that holds no white space; the text's end when there is none."""
        while True:
            self.steps += 1
            match = _SPACE.match(self.text, start)
            start = match.end() if match is not None else start
            del match
            if start < len(self.text) or self.ended:
                return start
            yield

    def tag_at(self, tags: Tags, start: int) -> Scan[Token | None]:
        """The tag that stands exactly at ``start``."""
        while True:
            self.steps += 1
            match = tags.pattern.match(self.text, start)
            if match is not None:
                return Token(match.group(), match.start(), match.end())
            if self.ended or (start < len(self.text) and not tags.may_grow(self.text, start)):
                return None
            yield

    def after_space(self, tags: Tags, start: int) -> Scan[Token | None]:
        """The tag that stands at ``start`` or after white space there."""
        start = yield from self.skip_space(start)
        return (yield from self.tag_at(tags, start))

    def only_space_after(self, start: int) -> Scan[bool]:
        """Whether the text ends after white space only."""
        start = yield from self.skip_space(start)
        return start == len(self.text)

    def until(self, stops: re.Pattern[str], start: int, limit: int) -> Scan[int]:
        """The place of the first character in the class ``stops``, at most ``limit`` characters on; -1 for none."""
        while True:
            self.steps += 1
            match = stops.search(self.text, start, start + limit)
            if match is not None:
                return match.start()
            if self.ended or len(self.text) >= start + limit:
                return -1
            del match
            yield
