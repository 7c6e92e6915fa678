"""How fast an env starts and how little a call costs, against a bare ``http.server`` child.

    python bench/env_start.py [--runs 20] [--calls 2000]

Wall times are medians in milliseconds; CPU is user and system time of the process in microseconds for each call.
"""

from __future__ import annotations

import argparse
import http.client
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
from functools import partial

ENV = """
    from agent_env.env import Env, tool

    class Noop(Env, name="noop"):
        @tool
        def sync(self, n: int) -> str:
            "Nothing."
            return "ok"

        @tool
        async def later(self, n: int) -> str:
            "Nothing."
            return "ok"

    if __name__ == "__main__":
        Noop.serve()
"""
PEER = """
    import http.server, os, socketserver

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            self.rfile.read(int(self.headers.get("content-length") or 0))
            body = b'{"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "ok"}]}}'
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *args):
            pass

        def address_string(self):
            return ""

    class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
        daemon_threads = True

    Server(os.environ["AGENTENV_UDS"], Handler).serve_forever()
"""
ZYGOTE = """
    import importlib.util, os, sys
    from agent_env.env.server import find_env, serve_instance

    spec = importlib.util.spec_from_file_location("author", sys.argv[1])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    env = find_env(module)
    for line in sys.stdin:
        if os.fork() == 0:
            serve_instance(env(), uds=line.strip())
            os._exit(0)
        print("ok", flush=True)
"""
CARD = b"GET /.well-known/agent-env.json HTTP/1.1\r\nHost: x\r\n\r\n"


class Connection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("env")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self._path)


def answered(path: str) -> float:
    """Wait until the card is answered; when that was."""
    while True:
        with socket.socket(socket.AF_UNIX) as sock:
            try:
                sock.connect(path)
                sock.sendall(CARD)
                if sock.recv(4096):
                    return time.perf_counter()
            except OSError:
                time.sleep(0.0005)


def start(script: Path, path: str) -> subprocess.Popen[bytes]:
    """Start a server on a unix socket; the peer complains when its client leaves, which is no news."""
    return subprocess.Popen(
        [sys.executable, str(script)], env={**os.environ, "AGENTENV_UDS": path}, stderr=subprocess.DEVNULL
    )


def spawned(script: Path, folder: Path, runs: int) -> float:
    """Median milliseconds from spawn to answer."""
    times: list[float] = []
    for number in range(runs):
        path = str(folder / f"{script.stem}{number}")
        begun = time.perf_counter()
        process = start(script, path)
        times.append(answered(path) - begun)
        process.kill()
        process.wait()
        Path(path).unlink()
    return statistics.median(times) * 1000


def forked(script: Path, folder: Path, runs: int) -> float:
    """Median milliseconds from the order to fork to the child's answer."""
    zygote = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(ZYGOTE), str(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert zygote.stdin is not None
    assert zygote.stdout is not None
    times: list[float] = []
    for number in range(runs):
        path = str(folder / f"fork{number}")
        begun = time.perf_counter()
        print(path, file=zygote.stdin, flush=True)
        times.append(answered(path) - begun)
        zygote.stdout.readline()
    os.killpg(zygote.pid, signal.SIGKILL)
    zygote.wait()
    zygote.stdin.close()
    zygote.stdout.close()
    return statistics.median(times) * 1000


def cpu(pid: int) -> float:
    """Seconds of CPU that a process used, from the scheduler's nanoseconds over all of its threads."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


def per_call(script: Path, folder: Path, body: str, calls: int) -> float:
    """Microseconds of the server's CPU for each call on one connection."""
    path = str(folder / f"{script.stem}-calls")
    process = start(script, path)
    answered(path)
    connection = Connection(path)

    def call() -> None:
        connection.request("POST", "/mcp", body, {"content-type": "application/json"})
        connection.getresponse().read()

    for _ in range(50):
        call()
    before = cpu(process.pid)
    for _ in range(calls):
        call()
    used = cpu(process.pid) - before
    connection.close()
    process.kill()
    process.wait()
    Path(path).unlink(missing_ok=True)
    return used / calls * 1e6


def client_cpu(script: Path, folder: Path, calls: int) -> float:
    """Microseconds of the client's CPU for each tool call."""
    import asyncio

    from agent_env.env.client import EnvClient
    from agent_env.plugin.sandbox import Endpoint

    path = str(folder / "client")
    process = start(script, path)
    answered(path)

    async def main() -> float:
        async with EnvClient(Endpoint("http://env", uds=path), name="noop") as client:
            for _ in range(50):
                await client.call_tool("later", {"n": 1})
            before = time.process_time()
            for _ in range(calls):
                await client.call_tool("later", {"n": 1})
            return time.process_time() - before

    used = asyncio.run(main())
    process.kill()
    process.wait()
    return used / calls * 1e6


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--calls", type=int, default=2000)
    options = parser.parse_args()
    call = '{"jsonrpc":"2.0","id":1,"method":"%s","params":{"name":"%s","arguments":{"n":1}}}'
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        env, peer = folder / "env.py", folder / "peer.py"
        env.write_text(textwrap.dedent(ENV))
        peer.write_text(textwrap.dedent(PEER))
        peer_start = partial(spawned, peer, folder, options.runs)
        rows: list[tuple[str, Callable[[], float], Callable[[], float]]] = [
            ("spawn to answer, ms", partial(spawned, env, folder, options.runs), peer_start),
            ("fork to answer, ms", partial(forked, env, folder, options.runs), peer_start),
        ]
        for label, body in (
            ("ping, CPU us", call % ("ping", "")),
            ("async tool, CPU us", call % ("tools/call", "later")),
            ("sync tool, CPU us", call % ("tools/call", "sync")),
        ):
            measure = [partial(per_call, script, folder, body, options.calls) for script in (env, peer)]
            rows.append((label, measure[0], measure[1]))
        print(f"{'':24}{'env':>10}{'http.server':>14}{'ratio':>8}")
        for label, ours, theirs in rows:
            a, b = ours(), theirs()
            print(f"{label:24}{a:10.1f}{b:14.1f}{a / b:8.2f}")
        print(f"{'client of a call, CPU us':24}{client_cpu(env, folder, options.calls):10.1f}")


if __name__ == "__main__":
    main()
