"""The HTTP server over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING

import pytest
from agent_env.env.http.responses import Response, text_response
from agent_env.env.http.server import HttpServer
from agent_env.env.sockets import listen_tcp, listen_uds
from agent_env.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from agent_env.env.http.requests import Request

GET = b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n"


async def slow_echo(request: Request) -> Response:
    await asyncio.sleep(float(request.query or 0))
    return text_response(200, f"{request.method} {request.path} {len(request.body)}")


def echo(request: Request) -> Response | Awaitable[Response]:
    if request.path == "/broken":
        raise ValueError("defect")
    if request.path == "/stream":
        return Response(200, numbers(), "text/plain")
    if request.path == "/big":
        return Response(200, b"x" * 5_000_000, "text/plain")
    return slow_echo(request) if request.query else text_response(200, f"{request.method} {request.path}")


async def numbers() -> AsyncIterator[bytes]:
    for number in range(3):
        await asyncio.sleep(0)
        yield b"%d" % number


Talk = Callable[[HttpServer, int], Awaitable[None]]


def serve(talk: Talk, **options: float) -> None:
    async def main() -> None:
        server = HttpServer(echo, max_body=1000, **options)  # type: ignore[arg-type]
        sock = listen_tcp("127.0.0.1", 0)
        port = sock.getsockname()[1]
        await server.listen(sock)
        try:
            async with asyncio.timeout(20):
                await talk(server, port)
        finally:
            await server.close(grace=0)
        assert not server.connections

    asyncio.run(main())


async def exchange(port: int, *pieces: bytes, eof: bool = False) -> bytes:
    """Send pieces and read until the server closes, which ``connection: close`` or a half-close asks it to."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.01)
        if eof:
            writer.write_eof()
        return await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()


def test_pipelined_requests_are_answered_in_order() -> None:
    async def talk(_: HttpServer, port: int) -> None:
        raw = b"GET /a?0.1 HTTP/1.1\r\nHost: x\r\n\r\n" + b"".join(GET % n for n in range(3))
        raw += b"GET /b?0.05 HTTP/1.1\r\nHost: x\r\n\r\nGET /c HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        answer = await exchange(port, raw)
        places = [answer.index(word) for word in (b"GET /a", b"GET /0", b"GET /1", b"GET /2", b"GET /b", b"GET /c")]
        assert places == sorted(places)
        assert answer.count(b"HTTP/1.1 200 OK") == 6

    serve(talk)


def test_a_request_that_comes_during_another_waits_its_turn() -> None:
    async def talk(_: HttpServer, port: int) -> None:
        last = b"GET /b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        answer = await exchange(port, b"GET /a?0.2 HTTP/1.1\r\nHost: x\r\n\r\n", GET % 1, last[:9], last[9:])
        places = [answer.index(word) for word in (b"GET /a", b"GET /1", b"GET /b")]
        assert places == sorted(places)

    serve(talk)


def test_a_half_closed_client_gets_its_answers() -> None:
    async def talk(_: HttpServer, port: int) -> None:
        answer = await exchange(port, b"GET /a?0.1 HTTP/1.1\r\nHost: x\r\n\r\n" + GET % 7, eof=True)
        assert b"GET /a" in answer
        assert b"GET /7" in answer

    serve(talk)


def test_a_client_that_leaves_early_harms_nobody() -> None:
    async def talk(_: HttpServer, port: int) -> None:
        for raw in (b"GET /a?0.05 HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n", b"GET"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(raw)
            await writer.drain()
            writer.transport.abort()
            del reader
        await asyncio.sleep(0.1)
        assert b"GET /1" in await exchange(port, GET % 1, eof=True)

    serve(talk)


def test_slow_and_chunked_bodies() -> None:
    async def talk(_: HttpServer, port: int) -> None:
        head = b"POST /p?0 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        answer = await exchange(port, head[:10], head[10:], b"Content-Length: 4\r\n\r\n", b"ab", b"cd")
        assert answer.endswith(b"POST /p 4\n")
        answer = await exchange(port, head, b"Transfer-Encoding: chunked\r\n\r\n3\r\nab", b"c\r\n0\r\n", b"\r\n")
        assert answer.endswith(b"POST /p 3\n")
        answer = await exchange(port, head, b"Expect: 100-continue\r\nContent-Length: 1\r\n\r\n", b"a")
        assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK")

    serve(talk)


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"nonsense\r\n\r\n", b"400 Bad Request"),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2000\r\n\r\n" + b"x" * 2000, b"413 Content Too Large"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 70_000, b"431 Request Header Fields Too Large"),
    ],
)
def test_bad_requests_are_answered_and_the_connection_closed(raw: bytes, status: bytes) -> None:
    async def talk(_: HttpServer, port: int) -> None:
        answer = await exchange(port, raw)
        assert answer.startswith(b"HTTP/1.1 " + status)
        assert b"connection: close" in answer

    serve(talk)


def test_head_stream_and_defect(capfd: pytest.CaptureFixture[str]) -> None:
    async def talk(_: HttpServer, port: int) -> None:
        head = await exchange(port, b"HEAD /h HTTP/1.1\r\nHost: x\r\n\r\n", eof=True)
        assert head.endswith(b"content-length: 8\r\n\r\n")
        last = b"GET /1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        stream = await exchange(port, b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n" + last)
        assert b"transfer-encoding: chunked\r\n\r\n1\r\n0\r\n1\r\n1\r\n1\r\n2\r\n0\r\n\r\nHTTP/1.1 200 OK" in stream
        broken = await exchange(port, b"GET /broken HTTP/1.1\r\nHost: x\r\n\r\n" + GET % 1, eof=True)
        assert broken.startswith(b"HTTP/1.1 500 ")
        assert b"defect" not in broken
        assert b"GET /1" in broken

    serve(talk)
    assert "ValueError: defect" in capfd.readouterr().err


def test_http_1_0_closes_unless_asked() -> None:
    async def talk(_: HttpServer, port: int) -> None:
        assert b"connection: close" in await exchange(port, b"GET /o HTTP/1.0\r\n\r\n")
        kept = await exchange(port, b"GET /o HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n" * 2, eof=True)
        assert kept.count(b"HTTP/1.1 200 OK") == 2

    serve(talk)


def test_a_request_that_does_not_arrive_is_given_up() -> None:
    async def talk(_: HttpServer, port: int) -> None:
        assert (await exchange(port, b"GET / HTTP/1.1\r\nHo")).startswith(b"HTTP/1.1 408 Request Timeout")
        assert await exchange(port) == b""  # an idle connection just ends

    serve(talk, read_timeout=0.05, idle_timeout=0.1)


def test_many_connections() -> None:
    async def talk(_: HttpServer, port: int) -> None:
        answers = await asyncio.gather(*(exchange(port, GET % n, eof=True) for n in range(300)))
        for number, answer in enumerate(answers):
            assert answer.endswith(b"GET /%d\n" % number)

    serve(talk)


def test_closing_lets_running_requests_end() -> None:
    async def talk(server: HttpServer, port: int) -> None:
        call = asyncio.create_task(exchange(port, b"GET /a?0.2 HTTP/1.1\r\nHost: x\r\n\r\n"))
        idle_reader, idle_writer = await asyncio.open_connection("127.0.0.1", port)
        await exchange(port, GET % 1, eof=True)  # when this one is answered, the others are known
        await server.close(grace=5)
        answer = await call
        assert b"GET /a" in answer
        assert b"connection: close" in answer
        assert await idle_reader.read() == b""
        idle_writer.close()
        with pytest.raises(OSError, match=r"refused|Connect"):
            await asyncio.open_connection("127.0.0.1", port)

    serve(talk)


def test_sockets_are_refused_with_words(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="at most 107 bytes"):
        listen_uds(tmp_path / ("x" * 120))
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="exists and is no socket"):
        listen_uds(tmp_path / "file")
    live = listen_uds(tmp_path / "s")
    with pytest.raises(UsageError, match="a server listens on"):
        listen_uds(tmp_path / "s")
    live.close()
    listen_uds(tmp_path / "s").close()  # a dead server's file is replaced
    with pytest.raises(UsageError, match=r"cannot listen on .*missing"):
        listen_uds(tmp_path / "missing" / "s")
    taken = listen_tcp("127.0.0.1", 0)
    with pytest.raises(UsageError, match="cannot listen on 127"):
        listen_tcp("127.0.0.1", taken.getsockname()[1])
    taken.close()
