"""Server-sent events, the reader's half: the same events for any cut of the stream into pieces."""

from __future__ import annotations

from codecs import getincrementaldecoder
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """One event.

    Attributes:
        data: its data lines, joined by newlines.
        event: its type.
        id: the last event id, ``""`` when there was none.
    """

    data: str
    event: str = "message"
    id: str = ""


class SseParser:
    """Feed it bytes, get whole events. What the end of the stream cuts is dropped, as the standard has it."""

    def __init__(self) -> None:
        self._decoder = getincrementaldecoder("utf-8")(errors="replace")
        self._line: list[str] = []
        self._after_cr = False
        self._first = True
        self._data: list[str] = []
        self._event = ""
        self._id = ""

    def feed(self, data: bytes) -> list[Event]:
        """The events that these bytes complete; an event without data is none."""
        text = self._decoder.decode(data)
        if self._first and text:
            self._first = False
            text = text.removeprefix("\ufeff")
        if self._after_cr and text:
            self._after_cr = False
            text = text.removeprefix("\n")
        if text.endswith("\r"):
            self._after_cr = True
        events: list[Event] = []
        *lines, rest = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        for line in lines:
            self._line.append(line)
            whole = "".join(self._line)
            self._line.clear()
            event = self._take(whole)
            if event is not None:
                events.append(event)
        if rest:
            self._line.append(rest)
        return events

    def _take(self, line: str) -> Event | None:
        if not line:
            event = Event("\n".join(self._data), self._event or "message", self._id) if self._data else None
            self._data, self._event = [], ""
            return event
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value
        elif name == "id" and "\0" not in value:
            self._id = value
        return None
