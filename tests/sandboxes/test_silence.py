"""A service that takes the connection and never answers: a start that waits for it ends when it is not wanted."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
AGENTENV = str(Path(sys.executable).parent / "agentenv")
# Every one of these waits longer for an answer than this for the end.
PATIENCE_S = 20
VARIABLES = {
    "docker": {"DOCKER_HOST": "tcp://{}"},
    "e2b": {"E2B_API_KEY": f"e2b_{'0' * 40}", "E2B_API_URL": "http://{}"},
    "aenv": {"AENV_API_KEY": "key", "AENV_URL": "http://{}"},
    "modal": {"MODAL_TOKEN_ID": "ak-0", "MODAL_TOKEN_SECRET": "as-0", "MODAL_SERVER_URL": "http://{}"},
    "daytona": {"DAYTONA_API_KEY": "key", "DAYTONA_API_URL": "http://{}/api"},
}


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """Listens, and that is all."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(60)
        yield listener


@pytest.mark.parametrize("name", VARIABLES)
def test_a_signal_ends_a_server_whose_sandbox_service_is_silent(name: str, silent: socket.socket) -> None:
    address = "{}:{}".format(*silent.getsockname())
    environment = {**os.environ, **{key: value.format(address) for key, value in VARIABLES[name].items()}}
    command = [AGENTENV, "serve", str(ROOT / "examples" / "gridsim"), "--port", "0", "--sandbox", name]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as server:
        connection, _ = silent.accept()
        with connection:
            server.send_signal(signal.SIGTERM)
            try:
                _, said = server.communicate(timeout=PATIENCE_S)
            finally:
                server.kill()
    assert server.returncode == 0, said
    assert "stopped before it had started" in said
    assert "Traceback" not in said
    assert "listening" not in said
