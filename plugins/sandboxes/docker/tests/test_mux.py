"""Streams side by side over one connection: wherever it is cut, every byte arrives and no window is passed."""

from __future__ import annotations

import struct
from collections import defaultdict

import pytest
from agent_env.sandboxes.docker.mux import CREDIT, DATA, EOF, OPEN, RESET, RESULT, WINDOW, Mux, MuxError, number
from hypothesis import given
from hypothesis import strategies as st

HEADER = struct.Struct(">BLL")


class Wire:
    """Both ends; bytes go over in pieces, and the receiver takes what it got when it is told to."""

    def __init__(self) -> None:
        self.near, self.far = Mux(), Mux(WINDOW)
        self.got: dict[int, bytearray] = defaultdict(bytearray)
        self.untaken: dict[int, int] = defaultdict(int)
        self.ended: set[int] = set()

    def move(self, piece: int) -> None:
        data = self.near.take()
        for place in range(0, len(data), piece):
            for kind, stream, content in self.far.feed(data[place : place + piece]):
                if kind == DATA:
                    self.got[stream] += content
                    self.untaken[stream] += len(content)
                elif kind == EOF:
                    self.ended.add(stream)
        self.back()

    def take_all(self) -> None:
        for stream, size in self.untaken.items():
            self.far.taken(stream, size)
        self.untaken.clear()
        self.back()

    def back(self) -> None:
        for kind, _, _ in self.near.feed(self.far.take()):
            assert kind == CREDIT


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, WINDOW)), max_size=12),
    st.integers(1, 1 << 16).filter(lambda size: size > 40),
)
def test_every_byte_arrives_in_order(writes: list[tuple[int, int]], piece: int) -> None:
    wire = Wire()
    streams = [wire.near.open(way) for way in range(4)]
    sent: dict[int, bytearray] = defaultdict(bytearray)
    for nth, (which, size) in enumerate(writes):
        stream, left = streams[which], bytes([nth]) * size
        while left:
            room = wire.near.room(stream)
            if not room:
                wire.move(piece)
                wire.take_all()
                continue
            now, left = left[:room], left[room:]
            wire.near.write(stream, now)
            sent[stream] += now
    for stream in streams:
        wire.near.write_eof(stream)
    wire.move(piece)
    assert dict(wire.got) == dict(sent)
    assert wire.ended == set(streams)


def test_a_stream_that_nobody_reads_holds_up_no_other() -> None:
    wire = Wire()
    one, other = wire.near.open(0), wire.near.open(0)
    wire.near.write(one, bytes(WINDOW))
    assert wire.near.room(one) == 0
    with pytest.raises(MuxError):
        wire.near.write(one, b"x")
    for _ in range(5):
        wire.near.write(other, bytes(wire.near.room(other)))
        wire.move(1 << 16)
        wire.far.taken(other, WINDOW)
        wire.back()
    assert len(wire.got[other]) == 5 * WINDOW
    assert wire.near.room(one) == 0


def test_what_comes_for_a_stream_that_was_reset_here_is_dropped() -> None:
    near, far = Mux(), Mux()
    stream = near.open(7)
    ((kind, found, content),) = far.feed(near.take())
    assert (kind, found, number(content)) == (OPEN, stream, 7)
    near.write(stream, b"on its way")
    far.reset(stream)
    far.reset(stream)
    assert far.feed(near.take()) == []
    assert near.feed(far.take()) == [(RESET, stream, b"")]
    assert near.room(stream) == 0
    near.write_eof(stream)
    near.taken(stream, 1)
    assert near.take() == b""


@pytest.mark.parametrize(
    "frames",
    [
        [(9, 1, b"")],
        [(DATA, 1, b"no such stream")],
        [(OPEN, 1, b"\0\0\0\0"), (OPEN, 1, b"\0\0\0\0")],
        [(OPEN, 1, b"way")],
        [(OPEN, 1, b"\0\0\0\0"), (CREDIT, 1, b"")],
        [(OPEN, 1, b"\0\0\0\0"), (DATA, 1, bytes(WINDOW)), (DATA, 1, b"x")],
        [(OPEN, 1, b"\0\0\0\0"), (EOF, 1, b""), (DATA, 1, b"x")],
        [(RESULT, 0, bytes(WINDOW + 1))],
    ],
)
def test_who_breaks_the_rules_is_told_so(frames: list[tuple[int, int, bytes]]) -> None:
    raw = b"".join(HEADER.pack(kind, stream, len(content)) + content for kind, stream, content in frames)
    with pytest.raises(MuxError):
        Mux(WINDOW).feed(raw)


@given(st.binary(max_size=60))
def test_noise_is_an_error_and_no_crash(noise: bytes) -> None:
    try:
        Mux(1024).feed(noise)
    except MuxError:
        return
