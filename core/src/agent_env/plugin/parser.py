"""The contract of a tool-call parser: from a model's raw text to content, reasoning and call attempts.

A parser never raises on model text and never drops an attempt in silence: each becomes a `CallAttempt` with a status.
It takes time linear in the text's length.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class CallStatus(StrEnum):
    """What became of one attempt to call a tool."""

    OK = "OK"
    INVALID_JSON = "INVALID_JSON"
    UNCLOSED_BLOCK = "UNCLOSED_BLOCK"
    MISSING_NAME = "MISSING_NAME"
    MALFORMED_STRUCTURE = "MALFORMED_STRUCTURE"
    UNKNOWN_TOOL = "UNKNOWN_TOOL"
    INVALID_ARGUMENTS = "INVALID_ARGUMENTS"


@dataclass(frozen=True, slots=True)
class CallAttempt:
    """One attempt to call a tool.

    Attributes:
        status: only `CallStatus.OK` may be executed.
        name: the tool's name, or `None` when it cannot be read.
        arguments: a JSON object, or `None` when there is none that can be read.
        raw: the exact source text of the attempt.
        span: start and end of ``raw`` in the text, in characters.
    """

    status: CallStatus
    name: str | None
    arguments: dict[str, Any] | None
    raw: str
    span: tuple[int, int]


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """A reply taken apart.

    Attributes:
        content: the text outside calls and reasoning, outer whitespace stripped.
        reasoning: the text of the think block, or `None` when there is none.
        calls: every attempt, in the order of the text.
    """

    content: str
    reasoning: str | None
    calls: tuple[CallAttempt, ...]


class StreamParser(ABC):
    """Parses a reply that arrives in pieces. Its `finish` equals the whole parse, however the text was cut."""

    @abstractmethod
    def feed(self, text: str) -> Sequence[CallAttempt]:
        """Take the next piece; returns the attempts that are complete now and were not before."""

    @abstractmethod
    def finish(self) -> ParsedReply:
        """End of the text: the result of the whole."""


class ToolCallParser(ABC):
    """Parser of one text format."""

    name: str

    @abstractmethod
    def parse(self, text: str, tools: Sequence[Mapping[str, Any]]) -> ParsedReply:
        """Take a reply apart.

        Args:
            text: the model's reply as it wrote it after the prompt.
            tools: the offered tools, as OpenAI function schemas (``{"type": "function", "function": {...}}``).
        """

    @abstractmethod
    def stream(self, tools: Sequence[Mapping[str, Any]]) -> StreamParser:
        """The incremental form."""

    def render(self, calls: Sequence[Mapping[str, Any]]) -> str | None:
        """The text of these calls (``{"name", "arguments"}``) in this format; `None` where the format allows none."""
        del calls
        return None
