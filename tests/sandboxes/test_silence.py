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

GRIDSIM = str(Path(__file__).resolve().parents[2] / "examples" / "gridsim")
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


def ended(command: list[str], name: str, silent: socket.socket) -> tuple[int, str]:
    """Exit status and output of a command that got SIGTERM while it waited for the service."""
    address = "{}:{}".format(*silent.getsockname())
    environment = {**os.environ, **{key: value.format(address) for key, value in VARIABLES[name].items()}}
    words = [AGENTENV, *command, "--sandbox", name]
    with subprocess.Popen(
        words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as running:
        connection, _ = silent.accept()
        with connection:
            running.send_signal(signal.SIGTERM)
            try:
                said, _ = running.communicate(timeout=PATIENCE_S)
            finally:
                running.kill()
    assert "Traceback" not in said
    return running.returncode, said


@pytest.mark.parametrize("name", VARIABLES)
def test_a_signal_ends_a_server_whose_sandbox_service_is_silent(name: str, silent: socket.socket) -> None:
    status, said = ended(["serve", GRIDSIM, "--port", "0"], name, silent)
    assert status == 0, said
    assert "stopped before it had started" in said
    assert "listening" not in said


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["rehearse", GRIDSIM], "interrupted before anything was played"),
        (
            ["eval", GRIDSIM, "--base-url", "http://127.0.0.1:9/v1", "--model", "m"],
            "the same command continues the run",
        ),
    ],
    ids=["rehearse", "eval"],
)
def test_a_signal_ends_what_would_play(
    command: list[str], words: str, silent: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    status, said = ended(command, "e2b", silent)
    assert status == 128 + signal.SIGTERM, said
    assert words in said
