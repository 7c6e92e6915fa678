"""The HTTP and event-stream parsers give the same for any cut of their input."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from agent_env.env.http.replies import Reply, ReplyParser, ReplyTooLarge
from agent_env.env.http.requests import Request, RequestParser
from agent_env.env.http.responses import Response, write_head
from agent_env.env.http.wire import ProtocolError
from agent_env.env.sse import Event, SseParser
from hypothesis import given
from hypothesis import strategies as st

tokens = st.text("abcXYZ019-_!", min_size=1, max_size=8)
values = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=20).map(str.strip)
headers = st.dictionaries(
    tokens.map(str.lower).filter(
        lambda name: name not in ("host", "te", "expect", "connection") and "length" not in name
    ),
    values,
    max_size=4,
)
bodies = st.binary(max_size=60)


def chunks(data: bytes, sizes: list[int]) -> bytes:
    """A body in chunks of some sizes."""
    out = b""
    for size in sizes:
        piece, data = data[:size], data[size:]
        if piece:
            out += b"%x;ext=1\r\n%b\r\n" % (len(piece), piece)
    if data:
        out += b"%X\r\n%b\r\n" % (len(data), data)
    return out + b"0\r\ntrailer: x\r\n\r\n"


@st.composite
def requests(draw: st.DrawFn) -> tuple[bytes, Request]:
    method = draw(st.sampled_from(["GET", "POST", "PUT", "DELETE"]))
    target = "/" + draw(st.text("ab/?=&%20", max_size=12)).replace(" ", "")
    fields = draw(headers)
    body = draw(bodies)
    head = f"{method} {target} HTTP/1.1\r\nHost: x\r\n" + "".join(f"{k}:  {v} \r\n" for k, v in fields.items())
    seen = {"host": "x", **fields}
    if draw(st.booleans()):
        raw = head.encode() + b"Transfer-Encoding: Chunked\r\n\r\n" + chunks(body, draw(st.lists(st.integers(1, 9))))
        seen["transfer-encoding"] = "Chunked"
    elif body or draw(st.booleans()):
        raw = head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body
        seen["content-length"] = str(len(body))
    else:
        raw = head.encode() + b"\r\n"
    return raw, Request(method, target, seen, body)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    bounds = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[a:b] for a, b in pairwise(bounds)]


@given(st.lists(requests(), min_size=1, max_size=4), st.lists(st.integers(0, 2000), max_size=40))
def test_pipelined_requests_come_whole_and_in_order(sent: list[tuple[bytes, Request]], places: list[int]) -> None:
    parser = RequestParser()
    got: list[Request] = []
    for piece in cut(b"".join(raw for raw, _ in sent), places):
        parser.feed(piece)
        while (request := parser.next_request()) is not None:
            got.append(request)
    assert got == [request for _, request in sent]
    assert parser.idle


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=20))
def test_garbage_is_refused_or_waited_for_alike(data: bytes, places: list[int]) -> None:
    def run(pieces: list[bytes]) -> tuple[list[Request], str]:
        parser = RequestParser(max_body=100)
        got: list[Request] = []
        try:
            for piece in pieces:
                parser.feed(piece)
                while (request := parser.next_request()) is not None:
                    got.append(request)
        except ProtocolError as error:
            return got, f"{error.status} {error}"
        return got, "waits"

    assert run([data]) == run(cut(data, places))


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET  / HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\nHost: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost : x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\nEvil: y\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: \xb2\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * 5000, 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n" + b"a" * 101, 413),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 101\r\n\r\n", 413),
        (b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 70_000, 431),
    ],
)
def test_what_is_not_http_has_its_status(raw: bytes, status: int) -> None:
    parser = RequestParser(max_body=100)
    parser.feed(raw)
    with pytest.raises(ProtocolError) as refused:
        parser.next_request()
    assert refused.value.status == status


@given(
    bodies,
    st.sampled_from(["length", "chunked", "close"]),
    st.lists(st.integers(1, 9)),
    st.booleans(),
    st.lists(st.integers(0, 400), max_size=30),
)
def test_replies_come_whole(body: bytes, framing: str, sizes: list[int], interim: bool, places: list[int]) -> None:
    raw = b"HTTP/1.1 100 Continue\r\n\r\n" if interim else b""
    raw += b"HTTP/1.1 201 \r\nX-A: b\r\n"
    match framing:
        case "length":
            raw += b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        case "chunked":
            raw += b"Transfer-Encoding: chunked\r\n\r\n" + chunks(body, sizes)
        case _:
            raw += b"\r\n" + body
    parser = ReplyParser("POST", 1000)
    for piece in cut(raw, places):
        parser.feed(piece)
    if framing == "close":
        assert not parser.done
    parser.end()
    assert parser.done
    assert parser.reusable is (framing != "close")
    assert parser.reply is not None
    assert (parser.reply.status, parser.reply.body, parser.reply.headers["x-a"]) == (201, body, "b")


@given(bodies.filter(bool), st.sampled_from(["length", "chunked"]), st.data())
def test_a_cut_reply_is_never_taken_for_whole(body: bytes, framing: str, data: st.DataObject) -> None:
    head = b"HTTP/1.1 200 OK\r\n"
    raw = head + (
        b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        if framing == "length"
        else b"Transfer-Encoding: chunked\r\n\r\n" + chunks(body, [])
    )
    parser = ReplyParser("GET", 1000)
    parser.feed(raw[: data.draw(st.integers(0, len(raw) - 1))])
    with pytest.raises(ProtocolError, match="the connection ended"):
        parser.end()


def test_replies_have_a_limit() -> None:
    for raw in (
        b"Content-Length: 11\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\nb\r\n12345678901",
        b"\r\n12345678901",
    ):
        parser = ReplyParser("GET", 10)
        with pytest.raises(ReplyTooLarge, match="larger than 10 bytes"):
            parser.feed(b"HTTP/1.1 200 OK\r\n" + raw)


def test_what_a_response_writes_a_reply_reads() -> None:
    answer = Response(200, b"[1]", headers={"x-b": "c"})
    parser = ReplyParser("GET", 10)
    parser.feed(write_head(answer, keep_alive=True, chunked=False) + b"[1]")
    assert parser.reply is not None
    assert (parser.reply.body, parser.reply.content_type, parser.reply.headers["x-b"]) == (
        b"[1]",
        "application/json",
        "c",
    )
    assert parser.reusable


class _Collect:
    def __init__(self, enough: int) -> None:
        self.head: Reply | None = None
        self.events: list[Event] = []
        self._parser = SseParser()
        self._enough = enough

    def begin(self, reply: Reply) -> None:
        self.head = reply

    def take(self, piece: bytes) -> bool:
        self.events.extend(self._parser.feed(piece))
        return len(self.events) >= self._enough


lines = st.lists(
    st.one_of(
        st.sampled_from(
            ["", "", "data", ":x", "event: ping", "event:", "id: 3", "retry: 5", "data:", "data: a: b", "x: y"]
        ),
        st.text("dataé☃: \ufeff", max_size=8).map(lambda text: f"data: {text}"),
    ),
    max_size=20,
)


@given(lines, st.lists(st.sampled_from(["\n", "\r", "\r\n"]), min_size=21, max_size=21), st.lists(st.integers(0, 400)))
def test_events_are_the_same_for_any_cut(content: list[str], ends: list[str], places: list[int]) -> None:
    raw = "".join(line + end for line, end in zip(content, ends, strict=False)).encode()
    whole = SseParser().feed(raw)
    parser = SseParser()
    pieces: list[Event] = []
    for piece in cut(raw, places):
        pieces.extend(parser.feed(piece))
    assert pieces == whole
    assert whole == _reference(raw.decode())


def _reference(text: str) -> list[Event]:
    """The standard's algorithm, line by line."""
    events: list[Event] = []
    data: list[str] = []
    kind, last_id = "", ""
    *whole, _ = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for line in whole:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if data:
                events.append(Event("\n".join(data), kind or "message", last_id))
            data, kind = [], ""
        elif name == "data":
            data.append(value)
        elif name == "event":
            kind = value
        elif name == "id":
            last_id = value
    return events


@given(st.lists(st.integers(0, 200), max_size=20))
def test_a_stream_reply_goes_to_its_sink(places: list[int]) -> None:
    raw = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
    raw += chunks(b"event: message\ndata: 1\n\ndata: 2\n\ndata: 3\n\n", [7, 5])
    sink = _Collect(2)
    parser = ReplyParser("POST", 1000, sink)
    for piece in cut(raw, places):
        parser.feed(piece)
    assert parser.satisfied
    assert parser.done
    assert parser.reusable
    assert sink.head is parser.reply
    assert [event.data for event in sink.events[:2]] == ["1", "2"]
    assert parser.reply is not None
    assert parser.reply.body == b""


def test_types_of_replies() -> None:
    kinds: dict[Any, str] = {" Text/Event-Stream ;x=y": "text/event-stream", "": ""}
    for raw, kind in kinds.items():
        assert Reply(200, {"content-type": raw}).content_type == kind
