"""Byte streams side by side over one connection, as frames; nothing here reads or writes.

Both ends use it: the server, and what runs in a container with the image's Python, where this file stands before
another one. So it imports the standard library only, nothing newer than 3.7.

A side sends at most `WINDOW` bytes of a stream that the other has not taken yet, so that one stream that nobody reads
holds up none of the others, and no memory grows.
"""

from __future__ import annotations

import struct

OPEN, DATA, EOF, RESET, CREDIT, RESULT = 1, 2, 3, 4, 5, 6
"""Kinds of frames. OPEN's content is a number of the opener's choice, CREDIT's the bytes taken; RESULT is the last."""
WINDOW = 1 << 18
_HEADER = struct.Struct(">BLL")
_NUMBER = struct.Struct(">L")
_MOST_FRAME = WINDOW


class MuxError(ValueError):
    """The other side does not keep to the rules."""


class _Stream:
    __slots__ = ("got_eof", "room", "sent_eof", "taken", "waiting")

    def __init__(self) -> None:
        self.room = WINDOW
        self.waiting = 0
        self.taken = 0
        self.got_eof = self.sent_eof = False


class Mux:
    """One end. Feed it what comes, send what `take` gives."""

    def __init__(self, most_result: int = 0) -> None:
        self._most_result = most_result
        self._in = bytearray()
        self._out = bytearray()
        self._streams: dict[int, _Stream] = {}
        self._last = 0

    # -- what goes out ------------------------------------------------------------------------------------------------

    def open(self, number: int) -> int:
        """A new stream; ``number`` tells the other side where it leads."""
        self._last += 1
        self._streams[self._last] = _Stream()
        self._frame(OPEN, self._last, _NUMBER.pack(number))
        return self._last

    def room(self, stream: int) -> int:
        """Bytes that may be written now; 0 when the stream is gone or ended."""
        state = self._streams.get(stream)
        return 0 if state is None or state.sent_eof else state.room

    def write(self, stream: int, data: bytes) -> None:
        """Send bytes, at most `room`."""
        state = self._streams[stream]
        if len(data) > state.room:
            raise MuxError("more than there is room for")
        state.room -= len(data)
        self._frame(DATA, stream, data)

    def write_eof(self, stream: int) -> None:
        """Nothing more is sent; no more than that when the stream is gone."""
        state = self._streams.get(stream)
        if state is not None and not state.sent_eof:
            state.sent_eof = True
            self._frame(EOF, stream, b"")
            self._over(stream, state)

    def reset(self, stream: int) -> None:
        """End it in both directions. Idempotent."""
        if self._streams.pop(stream, None) is not None:
            self._frame(RESET, stream, b"")

    def taken(self, stream: int, size: int) -> None:
        """So many of the bytes that came are where they belong: the other side may send more."""
        state = self._streams.get(stream)
        if state is None:
            return
        state.waiting -= size
        state.taken += size
        if state.taken >= WINDOW // 2 and not state.got_eof:
            self._frame(CREDIT, stream, _NUMBER.pack(state.taken))
            state.taken = 0

    def result(self, data: bytes) -> None:
        """The last frame of all."""
        self._frame(RESULT, 0, data)

    def _frame(self, kind: int, stream: int, data: bytes) -> None:
        self._out += _HEADER.pack(kind, stream, len(data))
        self._out += data

    def take(self) -> bytes:
        """What has to be sent; it is then forgotten here."""
        data = bytes(self._out)
        self._out.clear()
        return data

    # -- what comes in ------------------------------------------------------------------------------------------------

    def feed(self, data: bytes) -> list[tuple[int, int, bytes]]:
        """Kind, stream and content of each frame that is complete now; CREDIT is dealt with, and told as well.

        Raises:
            MuxError: the other side does not keep to the rules.
        """
        self._in += data
        frames: list[tuple[int, int, bytes]] = []
        place = 0
        while place + _HEADER.size <= len(self._in):
            kind, stream, size = _HEADER.unpack_from(self._in, place)
            if size > (self._most_result if kind == RESULT else _MOST_FRAME):
                raise MuxError(f"a frame of {size} bytes")
            if place + _HEADER.size + size > len(self._in):
                break
            place += _HEADER.size
            content = bytes(self._in[place : place + size])
            place += size
            if self._came(kind, stream, content):
                frames.append((kind, stream, content))
        del self._in[:place]
        return frames

    def _came(self, kind: int, stream: int, content: bytes) -> bool:
        """Keep the books; whether anybody has to know."""
        if kind == RESULT:
            return True
        if kind == OPEN:
            if stream <= self._last or len(content) != _NUMBER.size:
                raise MuxError("a stream that was there before")
            self._last = stream
            self._streams[stream] = _Stream()
            return True
        state = self._streams.get(stream)
        if kind not in {DATA, EOF, RESET, CREDIT} or (state is None and stream > self._last):
            raise MuxError(f"kind {kind} of stream {stream}")
        if state is None:  # it was reset here while this was on its way
            return False
        if kind == DATA:
            state.waiting += len(content)
            if state.got_eof or state.waiting + state.taken > WINDOW:
                raise MuxError("more than there was room for")
        elif kind == EOF:
            state.got_eof = True
            self._over(stream, state)
        elif kind == RESET:
            del self._streams[stream]
        else:
            state.room += number(content)
        return True

    def _over(self, stream: int, state: _Stream) -> None:
        if state.got_eof and state.sent_eof:
            self._streams.pop(stream, None)


def number(content: bytes) -> int:
    """The number in OPEN and CREDIT.

    Raises:
        MuxError: there is none.
    """
    if len(content) != _NUMBER.size:
        raise MuxError("no number")
    return int(_NUMBER.unpack(content)[0])
