"""A loopback URL for an env that is elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import ssl
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.env.client import EnvClient
from agent_env.env.http.responses import Response, json_response
from agent_env.env.http.server import HttpServer
from agent_env.env.relay import Relay
from agent_env.env.sockets import listen_tcp, listen_uds
from agent_env.plugin.sandbox import Endpoint

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from agent_env.env.http.requests import Request


def run(main: Callable[[], Awaitable[None]]) -> None:
    """Run and check that no task is left."""

    async def checked() -> None:
        async with asyncio.timeout(30):
            await main()
        assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]

    asyncio.run(checked())


async def ask(url: str, raw: bytes) -> bytes:
    host, _, port = url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port.partition("/")[0]))
    writer.write(raw)
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


GET = b"GET %b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


def test_an_env_on_a_unix_socket_is_played_through_it(spawn: Any) -> None:
    server = spawn("ours")

    async def main() -> None:
        async with Relay(server.endpoint) as relay:
            assert relay.url.startswith("http://127.0.0.1:")
            async with EnvClient(Endpoint(relay.url), name="clock") as client:
                results = await asyncio.gather(*(client.call_tool("set_hour", {"hour": n % 24}) for n in range(50)))
                assert [result.text for result in results] == [f"{n % 24}:00 exact" for n in range(50)]
        with socket.socket() as probe, pytest.raises(OSError, match="refused"):
            probe.connect(("127.0.0.1", int(relay.url.rpartition(":")[2])))

    run(main)


def test_bytes_go_both_ways_whatever_the_speed(tmp_path: Path) -> None:
    size = 20_000_000

    async def main() -> None:
        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while data := await reader.read(100_000):
                writer.write(data)
                await writer.drain()
            writer.close()
            await writer.wait_closed()

        sock = listen_uds(tmp_path / "s")
        server = await asyncio.start_unix_server(echo, sock=sock)
        async with Relay(Endpoint("http://x", uds=str(tmp_path / "s"))) as relay:
            reader, writer = await asyncio.open_connection("127.0.0.1", int(relay.url.rpartition(":")[2]))

            async def send() -> None:
                for _ in range(size // 1_000_000):
                    writer.write(b"x" * 1_000_000)
                    await writer.drain()
                writer.write_eof()

            sending = asyncio.create_task(send())
            await asyncio.sleep(0.1)  # a slow reader
            got = 0
            while data := await reader.read(1_000_000):
                got += len(data)
            await sending
            assert got == size
            writer.close()
            await writer.wait_closed()
        server.close()
        await server.wait_closed()

    run(main)


def test_closing_ends_open_connections(tmp_path: Path) -> None:
    async def main() -> None:
        gone = asyncio.Event()

        async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(ConnectionError):
                await reader.read()
            gone.set()
            writer.close()

        sock = listen_uds(tmp_path / "s")
        server = await asyncio.start_unix_server(hold, sock=sock)
        async with Relay(Endpoint("http://x", uds=str(tmp_path / "s"))) as relay:
            reader, writer = await asyncio.open_connection("127.0.0.1", int(relay.url.rpartition(":")[2]))
            writer.write(b"hello")
            await asyncio.sleep(0.05)
        with pytest.raises(ConnectionError):
            if await reader.read() == b"":
                raise ConnectionResetError
        await gone.wait()
        writer.close()
        server.close()
        await server.wait_closed()

    run(main)


def test_an_env_that_is_gone_ends_the_connection(tmp_path: Path) -> None:
    async def main() -> None:
        async with Relay(Endpoint("http://x", uds=str(tmp_path / "none"))) as relay:
            reader, writer = await asyncio.open_connection("127.0.0.1", int(relay.url.rpartition(":")[2]))
            with pytest.raises(ConnectionError):
                if await reader.read() == b"":
                    raise ConnectionResetError
            writer.close()

    run(main)


def test_a_loopback_url_is_used_as_it_is() -> None:
    async def main() -> None:
        async with Relay(Endpoint("http://127.0.0.1:9/base/")) as relay:
            assert relay.url == "http://127.0.0.1:9/base"

    run(main)


class Upstream:
    """A server that wants a secret header."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.left = asyncio.Event()
        self.go_on = asyncio.Event()

    def __call__(self, request: Request) -> Response:
        self.requests.append(request)
        if request.headers.get("x-token") != "secret":
            return Response(401)
        if request.path == "/base/moved":
            return Response(307, b"", None, {"location": f"https://{request.headers['host']}/base/a?b=c"})
        if request.path == "/base/stream":
            return Response(200, self.events(), "text/event-stream", {"mcp-session-id": "s"})
        headers = {"mcp-session-id": "s", "x-other": "1"}
        return json_response({"path": request.target, "body": request.body.decode()}, 201, headers)

    async def events(self) -> AsyncIterator[bytes]:
        try:
            yield b"data: 1\n\n"
            await self.go_on.wait()
            yield b"data: 2\n\n"
        finally:
            self.left.set()


def test_secret_headers_are_added_and_streams_come_piece_by_piece() -> None:
    async def main() -> None:
        upstream = Upstream()
        server = HttpServer(upstream)
        sock = listen_tcp("127.0.0.1", 0)
        await server.listen(sock)
        url = f"http://127.0.0.1:{sock.getsockname()[1]}/base"
        async with Relay(Endpoint(url, headers={"x-token": "secret"})) as relay:
            assert relay.url.endswith("/base")
            assert relay.url != url
            raw = b"POST /base/a?b=c HTTP/1.1\r\nHost: x\r\nX-Mine: m\r\nContent-Length: 2\r\n\r\nhi"
            answer = await ask(relay.url, raw)
            assert answer.startswith(b"HTTP/1.1 201 ")
            assert b'{"path": "/base/a?b=c", "body": "hi"}' in answer
            assert b"mcp-session-id: s\r\n" in answer
            assert upstream.requests[0].headers["x-mine"] == "m"
            assert b"location: /base/a?b=c\r\n" in await ask(relay.url, GET % b"/base/moved")

            reader, writer = await asyncio.open_connection("127.0.0.1", int(relay.url.split(":")[2].split("/")[0]))
            writer.write(GET % b"/base/stream")
            head = await reader.readuntil(b"\r\n\r\n")
            assert b"mcp-session-id: s" in head
            assert b"data: 1" in await reader.readuntil(b"\n\n")  # before the stream has ended
            upstream.go_on.set()
            assert b"data: 2" in await reader.read()
            writer.close()

            upstream.go_on.clear()
            upstream.left.clear()
            reader, writer = await asyncio.open_connection("127.0.0.1", int(relay.url.split(":")[2].split("/")[0]))
            writer.write(GET % b"/base/stream")
            await reader.readuntil(b"data: 1\n\n")
            writer.transport.abort()  # the client leaves: so does the relay
            await upstream.left.wait()
            await server.close(grace=0)
            assert (await ask(relay.url, GET % b"/base/a")).startswith(b"HTTP/1.1 502 ")

    run(main)


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A key and a certificate for 127.0.0.1."""
    if shutil.which("openssl") is None:
        pytest.skip("makes a certificate with the openssl command, which is not here")
    key, cert, both = tmp_path / "key", tmp_path / "cert", tmp_path / "both"
    made = [
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "9",
        "-subj",
        "/CN=127.0.0.1",
    ]
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:TRUE"]
    subprocess.run(["openssl", *made, *names, "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True)
    both.write_bytes(key.read_bytes() + cert.read_bytes())
    return both


def test_https_envs_share_one_pool(monkeypatch: pytest.MonkeyPatch, spawn: Any, certificate: Path) -> None:
    tls = pytest.importorskip("agent_env.env.transport.tls")
    context = ssl.create_default_context(cafile=certificate)
    monkeypatch.setattr(tls, "_context", lambda: context)
    env = spawn("ours")

    async def main() -> None:
        serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        serving.load_cert_chain(certificate)

        async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            near, far = await asyncio.open_unix_connection(env.endpoint.uds)

            async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
                try:
                    while data := await source.read(65536):
                        sink.write(data)
                        await sink.drain()
                except ConnectionError:
                    pass
                sink.close()

            await asyncio.gather(pump(reader, far), pump(near, writer))

        server = await asyncio.start_server(forward, "127.0.0.1", 0, ssl=serving)
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        endpoint = Endpoint(url, headers={"x-token": "secret"})
        loop = asyncio.get_running_loop()
        async with EnvClient(endpoint, name="one") as one, EnvClient(endpoint, name="two") as two:
            assert tls._clients[loop][1] == 2
            assert (await one.call_tool("set_hour", {"hour": 3})).text == "3:00 exact"
            assert (await two.call_tool("read", {})).structured == {"unit": "hours", "hour": 3}
            async with Relay(endpoint) as relay, EnvClient(Endpoint(relay.url), name="three") as three:
                assert (await three.call_tool("set_hour", {"hour": 4})).text == "4:00 exact"
        assert loop not in tls._clients
        server.close()
        await server.wait_closed()
        await asyncio.sleep(0.05)

    asyncio.run(main())
