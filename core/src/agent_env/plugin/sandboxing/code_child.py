"""Runs code of a bundle inside a sandbox: shipped there as text, so it imports the standard library only.

stdin holds a line of JSON (``tar``: bytes of the tar file that follows, ``reach``: ways to open by loopback URL), the
tar file with ``runner.py`` and ``code/``, and the request as JSON. The runner's output is this process's output.
"""

from __future__ import annotations

import http.client
import http.server
import io
import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import tarfile
import tempfile
import threading
from typing import Any
from urllib.parse import urlsplit

_HOP = {"connection", "keep-alive", "transfer-encoding", "te", "upgrade", "proxy-connection", "host", "content-length"}


def _read_body(handler: http.server.BaseHTTPRequestHandler) -> bytes:
    if "chunked" not in handler.headers.get("Transfer-Encoding", ""):
        return handler.rfile.read(int(handler.headers.get("Content-Length", "0")))
    pieces: list[bytes] = []
    while size := int(handler.rfile.readline().split(b";")[0], 16):
        pieces.append(handler.rfile.read(size))
        handler.rfile.readline()
    handler.rfile.readline()
    return b"".join(pieces)


class _Way(http.server.BaseHTTPRequestHandler):
    """Passes a request on with the secret headers added; each connection carries one."""

    target: str
    secrets: dict[str, str]

    def _pass_on(self) -> None:
        self.close_connection = True
        to = urlsplit(self.target)
        host, port = to.hostname or "", to.port
        connection: http.client.HTTPConnection
        if to.scheme == "https":
            connection = http.client.HTTPSConnection(host, port, context=ssl.create_default_context())
        else:
            connection = http.client.HTTPConnection(host, port)
        try:
            own = {name.lower() for name in self.secrets}
            headers = {k: v for k, v in self.headers.items() if k.lower() not in _HOP | own}
            body = _read_body(self)
            connection.request(self.command, to.path.rstrip("/") + self.path, body, {**headers, **self.secrets})
            reply = connection.getresponse()
        except (OSError, ValueError, http.client.HTTPException) as error:
            self.send_error(502, explain=f"the env cannot be reached: {type(error).__name__}")
            return
        try:
            self.send_response(reply.status, reply.reason)
            for name, value in reply.getheaders():
                if name.lower() not in _HOP - {"content-length"} | {"server", "date"}:
                    self.send_header(name, value)
            self.send_header("Connection", "close")
            self.end_headers()
            while piece := reply.read1(65536):
                self.wfile.write(piece)
                self.wfile.flush()
        finally:
            connection.close()

    do_GET = do_POST = do_DELETE = do_PUT = do_HEAD = do_PATCH = do_OPTIONS = _pass_on  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Says nothing: stderr belongs to the code."""


def _open_way(target: str, secrets: dict[str, str]) -> str:
    handler = type("Way", (_Way,), {"target": target, "secrets": secrets})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}"


def main() -> int:
    """Run the request; returns the runner's exit code, 128 + n when signal n ended it."""
    head: dict[str, Any] = json.loads(sys.stdin.buffer.readline())
    packed = sys.stdin.buffer.read(head["tar"])
    text = sys.stdin.buffer.read().decode()
    folder = tempfile.mkdtemp(prefix="agentenv-code-")
    try:
        with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
            safe: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
            tar.extractall(folder, **safe)  # noqa: S202 - packed by the server
        for url, way in head["reach"].items():
            text = re.sub(re.escape(url) + r"(?!\d)", _open_way(way["url"], way["headers"]), text)
        request: dict[str, Any] = json.loads(text)
        request["folder"] = os.path.join(folder, "code")  # noqa: PTH118
        done = subprocess.run(
            [sys.executable, os.path.join(folder, "runner.py")],  # noqa: PTH118
            cwd=request["folder"],
            input=json.dumps(request).encode(),
            check=False,
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return done.returncode if done.returncode >= 0 else 128 - done.returncode


if __name__ == "__main__":
    sys.stdout.flush()
    os._exit(main())
