"""The stand-in: a thread with an event loop of its own, which tests start and stop."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
import threading
from typing import TYPE_CHECKING, Any, Self, TypeVar

from agent_env.plugin.sandboxing.scratch import ScratchFolder
from agent_env.sandboxes.modal.standin.control import TOKEN_ID, TOKEN_SECRET, Control
from agent_env.sandboxes.modal.standin.router import Router
from agent_env.sandboxes.modal.standin.state import State
from grpclib.server import Server

from modal._utils.grpc_utils import custom_detail_codec

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from concurrent.futures import Future
    from pathlib import Path
    from types import TracebackType

    from agent_env.sandboxes.modal.standin.faults import Faults

T = TypeVar("T")

_START_TIMEOUT = 30.0
_STOP_TIMEOUT = 60.0


class StandIn:
    """Modal's service on this machine, while the ``with`` lasts.

    Attributes:
        state: what it knows; read it when it is quiet.
        certificate: the certificate of its tunnels, for ``SSL_CERT_FILE``; made when ``tls`` is asked for.
    """

    def __init__(self, *, tls: bool = False) -> None:
        self._folder = ScratchFolder("ae-ms")
        self.certificate = self._folder.path / "certificate.pem"
        self.state = State(self._folder.path, _certificate(self.certificate) if tls else None)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="modal stand-in", daemon=True)
        self._server: Server | None = None

    @property
    def url(self) -> str:
        """Its address."""
        return self.state.url

    @property
    def faults(self) -> Faults:
        """What it does wrong."""
        return self.state.faults

    @property
    def environment(self) -> dict[str, str]:
        """Variables that lead the SDK here."""
        return {
            "MODAL_SERVER_URL": self.url,
            "MODAL_TOKEN_ID": TOKEN_ID,
            "MODAL_TOKEN_SECRET": TOKEN_SECRET,
            "MODAL_CONFIG_PATH": str(self._folder.path / "no-such-file"),
        }

    def call(self, work: Coroutine[Any, Any, T], timeout: float = _STOP_TIMEOUT) -> T:
        """Run it in the stand-in's loop."""
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return future.result(timeout)

    def __enter__(self) -> Self:
        self._thread.start()
        self.call(self._start(), _START_TIMEOUT)
        return self

    async def _start(self) -> None:
        router = Router(self.state.boxes, self.state.faults, self.state.router_tokens)
        self._server = Server([Control(self.state), router], status_details_codec=custom_detail_codec)
        sock = socket.create_server(("127.0.0.1", 0))
        await self._server.start(sock=sock)
        self.state.url = f"http://127.0.0.1:{sock.getsockname()[1]}"

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        try:
            self.call(self._stop())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_STOP_TIMEOUT)
            self._loop.close()
            self._folder.remove()

    async def _stop(self) -> None:
        await self.state.close()
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
        await self._loop.shutdown_asyncgens()
        await self._loop.shutdown_default_executor()


def _certificate(path: Path) -> ssl.SSLContext:
    """A certificate for ``localhost`` that signs itself."""
    key = path.with_name("key.pem")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    files = ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(path)]
    subprocess.run([*command, *files], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path, key)
    return context
