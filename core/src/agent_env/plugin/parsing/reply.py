"""What a walk over a reply reports: text, reasoning and attempts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent_env.plugin.parser import CallAttempt, CallStatus, ParsedReply

if TYPE_CHECKING:
    from agent_env.plugin.parsing.cursor import Cursor
    from agent_env.plugin.parsing.tools import ToolTable

#: How often a walk may go back over text that turned out to be something else; keeps the work linear.
MAX_RETRIES = 16


class Reply:
    """Collects the parts of a reply in the order of its text.

    Attributes:
        tools: the offered tools.
        thought: a think block was seen.
        retries: how often the walk may still go back.
        fresh: attempts that `StreamParser.feed` has not handed out yet.
    """

    def __init__(self, cursor: Cursor, tools: ToolTable) -> None:
        self._cursor = cursor
        self.tools = tools
        self.thought = False
        self.retries = MAX_RETRIES
        self.fresh: list[CallAttempt] = []
        self.calls: list[CallAttempt] = []
        self.content: list[str] = []
        self._reasoning: list[str] = []

    def text(self, start: int, end: int) -> None:
        """Text outside blocks."""
        if end > start:
            self.content.append(self._cursor.text[start:end])

    def between(self, start: int, end: int) -> None:
        """Text inside a wrapper of calls: dropped when it is white space only."""
        piece = self._cursor.text[start:end]
        if piece and not piece.isspace():
            self.content.append(piece)

    def reason(self, start: int, end: int) -> None:
        """Text of a think block."""
        self.thought = True
        self._reasoning.append(self._cursor.text[start:end].strip())

    def all_was_reasoning(self, end: int) -> None:
        """A think block that the prompt opened ends at ``end``: whatever was found in it is no content and no call."""
        self.content.clear()
        self.calls.clear()
        self.fresh.clear()
        self.reason(0, end)

    def call(
        self,
        status: CallStatus,
        start: int,
        end: int,
        name: str | None = None,
        arguments: dict[str, Any] | None = None,
    ) -> None:
        """An attempt that spans the text from ``start`` to ``end``."""
        attempt = CallAttempt(status, name, arguments, self._cursor.text[start:end], (start, end))
        self.calls.append(attempt)
        self.fresh.append(attempt)

    def well_formed(
        self,
        start: int,
        end: int,
        name: str | None,
        arguments: dict[str, Any] | None,
        *,
        decoded: bool = True,
        malformed: bool = False,
    ) -> None:
        """A whole call, whose status its parts decide.

        Args:
            start: where it starts.
            end: where it ends.
            name: `None` or ``""`` when it has none.
            arguments: `None` when they are no object.
            decoded: whether every value could be decoded.
            malformed: the call can be read, but its form is not that of the format.
        """
        name = name or None
        if malformed:
            status = CallStatus.MALFORMED_STRUCTURE
        elif name is None:
            status = CallStatus.MISSING_NAME
        elif arguments is None or not decoded:
            status = CallStatus.INVALID_ARGUMENTS
        elif name not in self.tools:
            status = CallStatus.UNKNOWN_TOOL
        else:
            status = CallStatus.OK
        self.call(status, start, end, name, arguments)

    def unclosed(self, start: int, end: int, name: str | None = None, arguments: dict[str, Any] | None = None) -> None:
        """A block that has no end. When the prompt opened a think block that ends in it, all of it was reasoning."""
        if not self.thought and end == len(self._cursor.text):
            think_end = self._cursor.text.find("</think>", start)
            if think_end >= 0:
                self._cursor.pos = think_end
                return
        self._cursor.pos = end
        self.call(CallStatus.UNCLOSED_BLOCK, start, end, name or None, arguments)

    def take_fresh(self) -> list[CallAttempt]:
        """The attempts found since the last call."""
        fresh, self.fresh = self.fresh, []
        return fresh

    def result(self) -> ParsedReply:
        """The reply taken apart."""
        reasoning = "\n".join(self._reasoning) if self._reasoning else None
        return ParsedReply("".join(self.content).strip(), reasoning, tuple(self.calls))
