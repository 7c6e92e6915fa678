"""Env servers as real processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from agent_env.plugin.sandbox import Endpoint

_SERVERS = Path(__file__).parent / "servers"


@dataclass
class Server:
    """A running env."""

    process: subprocess.Popen[bytes]
    endpoint: Endpoint
    log_file: Path

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace")


Spawn = Callable[..., Server]


@pytest.fixture
def spawn(tmp_path: Path, new_port: Callable[[], int]) -> Iterator[Spawn]:
    """Starts ``servers/<name>.py`` on a unix socket, or with ``tcp=True`` on a port, and ends it with the test."""
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, *, tcp: bool = False, **variables: str) -> Server:
        number = len(started)
        log_file = tmp_path / f"{number}.log"
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), **variables}
        uds = str(tmp_path / f"{number}.sock")
        port = new_port()
        if tcp:
            environment |= {"MCP_HOST": "127.0.0.1", "MCP_PORT": str(port)}
            endpoint = Endpoint(f"http://127.0.0.1:{port}")
        else:
            environment["AGENTENV_UDS"] = uds
            endpoint = Endpoint("http://env", uds=uds)
        script = _SERVERS / f"{name}.py"
        with log_file.open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, str(script)], env=environment, stdout=log, stderr=log, cwd=tmp_path
            )
        started.append(process)
        _wait(process, uds if not tcp else ("127.0.0.1", port), log_file)
        return Server(process, endpoint, log_file)

    yield start
    for process in started:
        process.kill()
        process.wait()


def _wait(process: subprocess.Popen[bytes], address: str | tuple[str, int], log_file: Path) -> None:
    deadline = time.monotonic() + 40
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET) as sock:
            try:
                sock.connect(address)
            except OSError:
                time.sleep(0.01)
            else:
                return
    raise AssertionError(f"the server did not start: {log_file.read_text()}")
