"""Walks that most formats share: text with think blocks and call blocks in it, and a wrapper with calls in it."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Protocol

from agent_env.plugin.parsing.base import ScanningParser
from agent_env.plugin.parsing.cursor import Tags, Token
from agent_env.plugin.parsing.foreign import FOREIGN_TAGS, foreign_block

if TYPE_CHECKING:
    from agent_env.plugin.parsing.cursor import Cursor, Scan
    from agent_env.plugin.parsing.reply import Reply

THINK = "<think>"
THINK_END = "</think>"
_THINK_END = Tags(THINK_END)


class BlockParser(ScanningParser):
    """A format whose calls stand in blocks between text. A subclass names the tags that open one and writes `block`.

    Attributes:
        openers: tags that open a block.
    """

    openers: ClassVar[tuple[str, ...]]
    _tags: ClassVar[Tags]
    _foreign: ClassVar[frozenset[str]]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if hasattr(cls, "openers"):
            foreign = [
                tag
                for tag in FOREIGN_TAGS
                if tag not in cls.openers and not any(own.startswith(tag) for own in cls.openers)
            ]
            cls._foreign = frozenset(foreign)
            cls._tags = Tags(*cls.openers, THINK, THINK_END, *foreign)

    @abstractmethod
    def block(self, cursor: Cursor, reply: Reply, opener: Token) -> Scan[None]:
        """Read the block that ``opener`` opens, and leave the cursor behind it (or before a ``</think>`` that ends a
        think block of the prompt in which the opener was only mentioned)."""

    def scan(self, cursor: Cursor, reply: Reply) -> Scan[None]:
        """Text, think blocks, blocks of calls."""
        while True:
            token = yield from cursor.find(self._tags)
            if token is None:
                reply.text(cursor.pos, len(cursor.text))
                cursor.pos = len(cursor.text)
                break
            if token.tag == THINK_END and reply.thought:
                reply.text(cursor.pos, token.end)
                cursor.pos = token.end
                continue
            reply.text(cursor.pos, token.start)
            cursor.pos = token.end
            if token.tag == THINK_END:
                reply.all_was_reasoning(token.start)
            elif token.tag == THINK:
                end = yield from cursor.find(_THINK_END)
                reply.reason(token.end, len(cursor.text) if end is None else end.start)
                cursor.pos = len(cursor.text) if end is None else end.end
            elif token.tag in self._foreign:
                yield from foreign_block(cursor, reply, token)
            else:
                yield from self.block(cursor, reply, token)
        self.end(cursor, reply)

    def end(self, cursor: Cursor, reply: Reply) -> None:
        """The text is over; a format in which the whole reply may be a call looks at it here."""


class CallScan(Protocol):
    """Reads the call that a tag in a wrapper opens, and leaves the cursor behind it."""

    def __call__(self, cursor: Cursor, reply: Reply, opener: Token, *, malformed: bool) -> Scan[None]: ...


def scan_section(
    cursor: Cursor, reply: Reply, opens: Tags, closes: Tags, call: CallScan, *, malformed: bool = False
) -> Scan[None]:
    """The calls of a wrapper, from the cursor to the wrapper's end. Text between them stays, white space does not.

    Args:
        cursor: stands behind the wrapper's opening tag.
        reply: what is found goes there.
        opens: tags that open a call.
        closes: tags that close the wrapper, and ``</think>``.
        call: reads one call.
        malformed: the wrapper is not that of the format.
    """
    both = _joined(opens, closes)
    while True:
        token = yield from cursor.find(both)
        if token is not None and token.tag == THINK_END and reply.thought:
            reply.between(cursor.pos, token.end)
            cursor.pos = token.end
            continue
        if token is None:
            cut_in_section(cursor, reply, opens, both)
            return
        reply.between(cursor.pos, token.start)
        if token.tag == THINK_END:
            cursor.pos = token.start
            return
        cursor.pos = token.end
        if token.tag in closes.tags:
            return
        yield from call(cursor, reply, token, malformed=malformed)
        if not reply.thought and cursor.text.startswith(THINK_END, cursor.pos):
            return


def cut_section(cursor: Cursor, reply: Reply, opener: Token, tags: Tags) -> None:
    """Report a wrapper without a call that the text's end cuts, perhaps inside one of ``tags``."""
    if not cursor.ended or cursor.pos < len(cursor.text):
        return
    inside = cursor.text[opener.end :].lstrip()
    if not inside or any(tag.startswith(inside) and tag != inside for tag in tags.tags):
        reply.unclosed(opener.start, len(cursor.text))


def cut_in_section(cursor: Cursor, reply: Reply, opens: Tags, tags: Tags) -> None:
    """The text ends in a wrapper. A tag that its end cuts is no text, and an attempt when it can only open a call."""
    end = len(cursor.text)
    cut = tags.partial(cursor.text, cursor.pos)
    reply.between(cursor.pos, cut)
    cursor.pos = end
    piece = cursor.text[cut:]
    if piece and all(tag in opens.tags for tag in tags.tags if tag.startswith(piece)):
        reply.unclosed(cut, end)


_joins: dict[tuple[Tags, Tags], Tags] = {}


def _joined(first: Tags, second: Tags) -> Tags:
    key = (first, second)
    if key not in _joins:
        _joins[key] = Tags(*first.tags, *second.tags, THINK_END)
    return _joins[key]
