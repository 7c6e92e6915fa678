"""A connection with TLS one direction of which ends first, as the stdin of a command does."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
import subprocess
import threading
from typing import TYPE_CHECKING

import pytest
from agent_env.sandboxes.docker.failures import EngineError
from agent_env.sandboxes.docker.tlspipe import TlsPipe
from agent_env.sandboxes.docker.upgrade import upgrade

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Talk = Callable[["Peer"], None]
    Serve = Callable[[Talk], int]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and a certificate for 127.0.0.1 in one file."""
    if shutil.which("openssl") is None:
        pytest.skip("makes a certificate with the openssl command, which is not here")
    folder = tmp_path_factory.mktemp("tls")
    kind = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "9"]
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(folder / "key"), "-out", str(folder / "cert")]
    subprocess.run(["openssl", *kind, *names, *files], check=True, capture_output=True)
    (folder / "both").write_bytes((folder / "key").read_bytes() + (folder / "cert").read_bytes())
    return folder / "both"


class Peer:
    """The other end, whose every byte on the wire the test decides."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        self.sock = sock
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._in, self._out, server_side=True)
        self._do(self.tls.do_handshake)

    def _do(self, work: Callable[[], object]) -> object:
        while True:
            try:
                result = work()
            except ssl.SSLWantReadError:
                self.sock.sendall(self._out.read())
                data = self.sock.recv(65536)
                assert data, "it hung up without a word"
                self._in.write(data)
            else:
                self.sock.sendall(self._out.read())
                return result

    def wire(self, data: bytes) -> bytes:
        """What would be sent for these bytes."""
        self.tls.write(data)
        return self._out.read()

    def read(self) -> bytes:
        data = self._do(lambda: self.tls.read(65536))
        assert isinstance(data, bytes)
        return data

    def read_all(self) -> bytes:
        """Until the other side says that it sends nothing more."""
        data = b""
        while piece := self.read():
            data += piece
        return data


@pytest.fixture
def serve(certificate: Path) -> Iterator[Serve]:
    """Serves one connection by a function; its port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    threads: list[threading.Thread] = []
    failures: list[BaseException] = []

    def start(talk: Talk) -> int:
        listener = socket.create_server(("127.0.0.1", 0))

        def run() -> None:
            try:
                with listener, listener.accept()[0] as sock:
                    sock.settimeout(20)
                    talk(Peer(sock, context))
            except BaseException as error:  # noqa: BLE001 - shown by the test
                failures.append(error)

        threads.append(threading.Thread(target=run))
        threads[-1].start()
        return int(listener.getsockname()[1])

    yield start
    for thread in threads:
        thread.join(20)
    assert failures == []


@pytest.fixture
def trusting(certificate: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificate))


class Got:
    def __init__(self) -> None:
        self.all = b""
        self.ended = asyncio.Event()

    def data(self, stream: int, data: bytes) -> None:
        del stream
        self.all += data

    def end(self) -> None:
        self.ended.set()


async def connect(context: ssl.SSLContext, port: int, got: Got) -> TlsPipe:
    return await TlsPipe.connect(context, "127.0.0.1", port, lambda data: got.data(0, data), got.end, 10)


@pytest.mark.parametrize("size", [0, 1, 1 << 20])
def test_an_answer_comes_after_the_end_of_what_was_sent(size: int, serve: Serve, trusting: ssl.SSLContext) -> None:
    def talk(peer: Peer) -> None:
        sent = peer.read_all()
        peer.sock.sendall(peer.wire(b"%d" % len(sent)) + peer.wire(sent))

    async def play() -> None:
        got = Got()
        pipe = await connect(trusting, serve(talk), got)
        pipe.write(b"x" * size)
        pipe.write_eof()
        pipe.write_eof()
        pipe.write(b"never sent")
        async with asyncio.timeout(20):
            await got.ended.wait()
        assert got.all == b"%d" % size + b"x" * size
        assert pipe.is_closing()
        pipe.abort()

    asyncio.run(play())


@pytest.mark.parametrize("cut", [1, 4, 5, 6, 9_999, 20_000])
def test_it_ends_in_the_middle_of_what_comes(cut: int, serve: Serve, trusting: ssl.SSLContext) -> None:
    """Half of a record is there when the end is sent."""

    def talk(peer: Peer) -> None:
        raw = peer.wire(b"y" * 60_000)
        peer.sock.sendall(raw[:cut])
        assert peer.read_all() == b"half is there"
        peer.sock.sendall(raw[cut:] + peer.wire(b"end"))

    async def play() -> None:
        got = Got()
        pipe = await connect(trusting, serve(talk), got)
        await asyncio.sleep(0.1)
        pipe.write(b"half is there")
        pipe.write_eof()
        async with asyncio.timeout(20):
            await got.ended.wait()
        assert got.all == b"y" * 60_000 + b"end"
        pipe.abort()

    asyncio.run(play())


def test_a_certificate_that_nobody_vouches_for_is_refused(certificate: Path) -> None:
    async def play() -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=context)
        async with server:
            with pytest.raises(ssl.SSLCertVerificationError):
                await connect(ssl.create_default_context(), server.sockets[0].getsockname()[1], Got())

    asyncio.run(play())


@pytest.mark.parametrize(
    ("answer", "status", "message"),
    [
        (b"HTTP/1.1 409 Conflict\r\nContent-Length: 4\r\n\r\nbusy", 409, "busy"),
        (b"HTTP/1.1 404 Not Found\r\n\r\n", 404, "^$"),
        (b"SSH-2.0\r\n\r\n", 0, "no HTTP"),
        (b"", 0, "closed the connection"),
    ],
)
def test_an_engine_that_says_no(
    answer: bytes, status: int, message: str, serve: Serve, trusting: ssl.SSLContext
) -> None:
    def talk(peer: Peer) -> None:
        assert b"Upgrade: tcp" in peer.read()
        if answer:
            peer.sock.sendall(peer.wire(answer))

    async def play() -> None:
        port = serve(talk)
        with pytest.raises((EngineError, ConnectionError), match=message) as caught:
            await upgrade(trusting, "127.0.0.1", port, "/exec/1/start", {}, Got())
        assert (caught.value.status if isinstance(caught.value, EngineError) else 0) == status

    asyncio.run(play())


def test_frames_begin_right_after_the_head(serve: Serve, trusting: ssl.SSLContext) -> None:
    def talk(peer: Peer) -> None:
        peer.read()
        for piece in (b"HTTP/1.1 101 UPG", b"RADED\r\nUpgrade: tcp\r\n\r\n\x01\0\0\0\0", b"\0\0\x02hi"):
            peer.sock.sendall(peer.wire(piece))

    async def play() -> None:
        got = Got()
        taken = await upgrade(trusting, "127.0.0.1", serve(talk), "/exec/1/start", {}, got)
        async with asyncio.timeout(20):
            await got.ended.wait()
        assert got.all == b"hi"
        taken.close()

    asyncio.run(play())
