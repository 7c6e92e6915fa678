"""Runs inside a container, with the Python of its image: forks one child for each piece of a bundle's code.

The standard library only, nothing newer than 3.7; `mux` and `loopback` stand before it. It answers HTTP on the unix
socket AGENTENV_UDS, else on MCP_PORT: a GET says that it is there; a POST's body is a line of JSON (``size``,
``timeout``, ``max_output``, ``ways``), a tar file of ``size`` bytes with ``runner.py`` and the folder ``code``, and the
request that the runner reads from its stdin. ``@FOLDER@`` in the request stands for the folder that the tar is
unpacked in. The answer is a line of JSON (``exit``, ``timed_out``, ``truncated``, ``err``) and what the runner wrote.

``ways`` are http URLs that lead somewhere on the client's side only. Each is replaced by one that leads there through
the POST's own connection, which carries the frames of `mux` after an answer of 101, the last of them the answer proper.
"""

# ruff: noqa: PTH101, PTH104, PTH123, PTH208, SIM115, S103, S202, BLE001
from __future__ import annotations

import asyncio
import contextlib
import ctypes
import http.client
import http.server
import importlib.util
import inspect
import io
import json
import os
import re
import runpy
import selectors
import shutil
import socketserver
import sys
import tarfile
import tempfile
import time
import traceback
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket

    from agent_env.sandboxes.docker.loopback import Ways  # noqa: TC004

WARM = (asyncio, http.client, importlib.util, inspect)
"""What code of a bundle needs, imported before the fork."""
CHUNK = 65536
MOST_ERR = 8000
PR_SET_CHILD_SUBREAPER = 36
KILL_ROUNDS = 20


class Server(socketserver.ForkingMixIn, socketserver.TCPServer):
    """One child for each connection."""

    allow_reuse_address = True
    request_queue_size = 256
    max_children = 256
    block_on_close = False


class UnixServer(socketserver.ForkingMixIn, socketserver.UnixStreamServer):
    """Likewise on a unix socket."""

    request_queue_size = 256
    max_children = 256
    block_on_close = False


class Handler(http.server.BaseHTTPRequestHandler):
    """One request."""

    def address_string(self) -> str:
        return "server"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""

    def do_GET(self) -> None:  # noqa: N802
        """I am there."""
        self._answer({"ready": True}, b"")

    def do_POST(self) -> None:  # noqa: N802
        """Run code."""
        body = io.BytesIO(self.rfile.read(int(self.headers["Content-Length"])))
        about = json.loads(body.readline())
        folder = tempfile.mkdtemp(prefix="agentenv-code-")
        try:
            with tarfile.open(fileobj=io.BytesIO(body.read(about["size"]))) as tar:
                tar.extractall(folder)
            request = body.read().replace(b"@FOLDER@", folder.encode())
            with selectors.DefaultSelector() as selector:
                ways = self._open_ways(about["ways"], selector) if about.get("ways") else None
                if ways is None:
                    selector.register(self.connection, selectors.EVENT_READ)
                else:
                    request = lead(request, about["ways"], ways.urls())
                with open(folder + "/request", "wb") as file:
                    file.write(request)
                job = Job(folder, about["timeout"], about["max_output"])
                job.run(selector, self.connection, ways)
                told: dict[str, object] = {
                    "exit": job.code,
                    "timed_out": job.timed_out,
                    "truncated": job.truncated,
                    "err": job.words(),
                }
                if ways is None:
                    self._answer(told, bytes(job.out))
                else:
                    ways.answer(json.dumps(told).encode() + b"\n" + job.out)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _open_ways(self, urls: list[str], selector: selectors.BaseSelector) -> Ways:
        self.connection.sendall(b"HTTP/1.0 101 Switching Protocols\r\n\r\n")
        return Ways(self.connection, len(urls), selector, lambda: descendants(os.getpid()))

    def _answer(self, about: dict[str, object], out: bytes) -> None:
        data = json.dumps(about).encode() + b"\n" + out
        with contextlib.suppress(OSError):
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)


class Job:
    """The runner's process, and everything that it starts."""

    def __init__(self, folder: str, timeout: float, most: int) -> None:
        self.out, self.err = bytearray(), bytearray()
        self.code = 1
        self.timed_out = self.truncated = False
        self._folder, self._most = folder, most
        self._end = time.monotonic() + timeout

    def words(self) -> str:
        """The end of what it wrote to stderr."""
        return bytes(self.err).decode(errors="replace")

    def run(self, selector: selectors.BaseSelector, client: socket.socket, ways: Ways | None) -> None:
        """Run it until it ends, its deadline is past, or the client hangs up."""
        # What loses its parent comes to this process, so that it is found and ended with the rest.
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        out, out_end = os.pipe()
        err, err_end = os.pipe()
        pid = os.fork()
        if pid == 0:
            start(self._folder, out_end, err_end)
        os.close(out_end)
        os.close(err_end)
        try:
            self._follow(pid, out, err, selector, client, ways)
        finally:
            kill_below()
            os.close(out)
            os.close(err)

    def _follow(
        self,
        pid: int,
        out: int,
        err: int,
        selector: selectors.BaseSelector,
        client: socket.socket,
        ways: Ways | None,
    ) -> None:
        for fd in (out, err):
            selector.register(fd, selectors.EVENT_READ)
        ended = watch(pid, selector)
        while True:
            left = self._end - time.monotonic()
            if left <= 0:
                self.timed_out = True
                return
            for key, mask in selector.select(min(left, 0.05)):
                if key.data is not None:
                    key.data(mask)
                elif key.fileobj is client:  # it says nothing more, so it has hung up
                    return
                elif key.fd != ended:
                    self._take(key.fd, out, selector)
            if ways is not None and ways.gone:
                return
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                self.code = 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
                for fd in (out, err):  # a child left behind may hold them open
                    os.set_blocking(fd, False)
                    while self._take(fd, out, selector):
                        pass
                return

    def _take(self, fd: int, out: int, selector: selectors.BaseSelector) -> bool:
        try:
            data = os.read(fd, CHUNK)
        except BlockingIOError:
            return False
        if not data:
            if fd in selector.get_map():
                selector.unregister(fd)
            return False
        if fd == out:
            room = self._most - len(self.out)
            self.out += data[:room]
            self.truncated = self.truncated or len(data) > room
        else:
            self.err = (self.err + data)[-MOST_ERR:]
        return True


def lead(request: bytes, urls: list[str], there: list[str]) -> bytes:
    """The request with other URLs in the place of these."""
    instead = {url.encode(): new.encode() for url, new in zip(urls, there)}  # noqa: B905 - Python 3.7
    pattern = b"(" + b"|".join(map(re.escape, instead)) + rb")(?!\d)"
    return re.sub(pattern, lambda match: instead[match[1]], request)


def watch(pid: int, selector: selectors.BaseSelector) -> int:
    """Wake the selector when a process ends, where the system can; else it looks now and then."""
    with contextlib.suppress(OSError, AttributeError):
        ended = os.pidfd_open(pid)
        selector.register(ended, selectors.EVENT_READ)
        return ended
    return -1


def start(folder: str, out: int, err: int) -> None:
    """Become the runner."""
    try:
        os.setsid()
        os.dup2(os.open(folder + "/request", os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        os.closerange(3, 4096)
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")
        os.chdir(folder + "/code")
        sys.argv = [folder + "/runner.py"]
        runpy.run_path(sys.argv[0], run_name="__main__")
        sys.stdout.flush()
        os._exit(0)
    except SystemExit as end:
        os._exit(end.code if isinstance(end.code, int) else 1)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def kill_below() -> None:
    """End every process below this one, also what forks meanwhile."""
    for _ in range(KILL_ROUNDS):
        below = descendants(os.getpid())
        if not below:
            break
        for pid in below:
            with contextlib.suppress(OSError):
                os.kill(pid, 9)
        with contextlib.suppress(OSError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.005)
    with contextlib.suppress(OSError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def descendants(top: int) -> list[int]:
    """All processes below one."""
    parents: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError), open("/proc/" + entry + "/stat", "rb") as file:
                data = file.read()
                fields = data[data.rindex(b")") + 2 :].split()
                if fields[0] != b"Z":
                    parents.setdefault(int(fields[1]), []).append(int(entry))
    found: list[int] = []
    todo = [top]
    while todo:
        below = parents.get(todo.pop(), [])
        found += below
        todo += below
    return found


def main() -> None:
    """The process."""
    path = os.environ.get("AGENTENV_UDS")
    if path:
        server: socketserver.BaseServer = UnixServer(path + "~", Handler)
        os.chmod(path + "~", 0o666)
        os.rename(path + "~", path)
    else:
        server = Server(("127.0.0.1", int(os.environ["MCP_PORT"])), Handler)
    server.serve_forever(poll_interval=0.5)


if __name__ == "__main__":
    main()
