"""`agentenv serve` takes what `build_app` takes."""

from __future__ import annotations

import inspect
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from agent_env.cli.serve import command
from agent_env.openenv import build_app

ROOT = Path(__file__).resolve().parents[1]
AGENTENV = Path(sys.executable).parent / "agentenv"
NOT_FOR_A_COMMAND = {"registry", "engine", "progress"}


def test_every_setting_of_build_app_is_an_option() -> None:
    settings = set(inspect.signature(build_app).parameters) - NOT_FOR_A_COMMAND
    options = {str(parameter.name) for parameter in command.params}
    assert settings - options == {"token"}
    assert "token_var" in options


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--isolation", "vm"], "isolation"),
        (["--isolation", "wall"], "'wall' is not one of"),
        (["--port", "70000"], "--port"),
        (["--token-var", "NO_SUCH_TOKEN"], "NO_SUCH_TOKEN"),
        (["--warm", "-1"], "--warm"),
        (["--max-message-bytes", "1"], "--max-message-bytes"),
    ],
)
def test_what_cannot_be_served_so_is_said_at_the_start(arguments: list[str], words: str) -> None:
    done = subprocess.run(
        [AGENTENV, "serve", ROOT / "examples" / "hello", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode in {1, 2}
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_it_serves_and_ends(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("w") as output:
        serving = subprocess.Popen(
            [AGENTENV, "serve", ROOT / "examples" / "hello", "--port", "0"],
            stdout=output,
            stderr=output,
            env={**os.environ, "NO_COLOR": "1"},
        )
    try:
        url = ""
        for _ in range(600):
            lines = [line for line in log.read_text().splitlines() if "listening on http" in line]
            if lines:
                url = lines[0].rsplit(" ", 1)[-1]
                break
            time.sleep(0.1)
        with urllib.request.urlopen(f"{url}/health", timeout=10) as answer:
            assert json.load(answer) == {"status": "healthy"}
        assert "serving bundle hello" in log.read_text()
    finally:
        serving.send_signal(signal.SIGTERM)
        assert serving.wait(30) == 0
