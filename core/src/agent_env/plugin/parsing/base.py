"""The parser around a walk: whole and in pieces."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from agent_env.plugin.parser import CallAttempt, ParsedReply, StreamParser, ToolCallParser
from agent_env.plugin.parsing.cursor import Cursor
from agent_env.plugin.parsing.reply import Reply
from agent_env.plugin.parsing.tools import ToolTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agent_env.plugin.parsing.cursor import Scan


class ScanningParser(ToolCallParser):
    """A parser that is one walk over the text: a family writes `scan`."""

    @abstractmethod
    def scan(self, cursor: Cursor, reply: Reply) -> Scan[None]:
        """Walk over the text and report to ``reply``; ``yield`` where more text is needed.

        No decision may depend on where the text that has arrived ends: only `Cursor.ended` says that it is whole.
        """

    def parse(self, text: str, tools: Sequence[Mapping[str, Any]]) -> ParsedReply:
        """Take a reply apart."""
        stream = ScanningStream(self, tools)
        stream.cursor.text = text
        return stream.finish()

    def stream(self, tools: Sequence[Mapping[str, Any]]) -> ScanningStream:
        """The incremental form."""
        return ScanningStream(self, tools)


class ScanningStream(StreamParser):
    """A walk that is given its text in pieces.

    `feed` returns an attempt as soon as it is complete. Where the prompt opened a think block, a later ``</think>``
    makes everything before it reasoning, also attempts that `feed` has returned; what `finish` returns stands.
    """

    def __init__(self, parser: ScanningParser, tools: Sequence[Mapping[str, Any]]) -> None:
        self.cursor = Cursor()
        self.reply = Reply(self.cursor, ToolTable(tools))
        self._walk = parser.scan(self.cursor, self.reply)
        self._result: ParsedReply | None = None

    def feed(self, text: str) -> Sequence[CallAttempt]:
        """Take the next piece; returns the attempts that are complete now and were not before."""
        if self._result is not None:
            raise RuntimeError("feed after finish")
        if not text:
            return []
        self.cursor.append(text)
        next(self._walk, None)
        return self.reply.take_fresh()

    def finish(self) -> ParsedReply:
        """End of the text: the result of the whole."""
        if self._result is None:
            self.cursor.ended = True
            for _ in self._walk:
                raise AssertionError("a walk waits for text after the end")
            self._result = self.reply.result()
        return self._result
