"""How an env says what to run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from agent_env.errors import SandboxUnsupported
from agent_env.sandboxes.process.settings import read_settings
from agent_env.sandboxes.process.warm import Unfit, module_of
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from pathlib import Path


def test_a_dockerfile_says_command_folder_and_variables(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(
        """# syntax=docker/dockerfile:1
FROM python:3.11 AS build
CMD ["never"]
FROM python:3.11-slim
ENV A=1 B="two words" \\
    # a comment inside
    C=$A
WORKDIR /srv
workdir env
ENTRYPOINT ["python", "-u"]
CMD ["server.py",
"""
        '  "--flag"]\n'
    )
    with pytest.raises(SandboxUnsupported, match="neither"):
        read_settings(tmp_path, "Dockerfile.none")
    found = read_settings(tmp_path)
    assert found.workdir == "/srv/env"
    assert found.env == {"A": "1", "B": "two words"}
    assert found.command[:2] == ("python", "-u")


@given(st.text(max_size=300))
def test_any_dockerfile_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    folder = tmp_path_factory.mktemp("env")
    (folder / "Dockerfile").write_text(text + "\nCMD echo\n", encoding="utf-8", newline="")
    try:
        found = read_settings(folder)
    except SandboxUnsupported:
        return
    assert found.workdir.startswith("/")
    assert found.command


def test_agentenv_toml_stands_above_the_dockerfile(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM x\nWORKDIR /srv\nCMD python server.py\n")
    (tmp_path / "agentenv.toml").write_text(
        '[process]\ncommand = ["python", "-m", "dice"]\nport = 80\nprefork = true\n'
    )
    found = read_settings(tmp_path)
    assert (found.command, found.port, found.prefork, found.workdir) == (("python", "-m", "dice"), 80, True, "/srv")


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        ("[process]\ncomand = ['a']\n", "'comand'.*did you mean 'command'"),
        ("[proces]\nport = 1\n", "'proces'.*did you mean 'process'"),
        ("[process]\nport = 0\n", "port must be a whole number from 1 to 65535"),
        ("[process]\nport = true\n", "port must be a whole number"),
        ("[process]\ncommand = 'python server.py'\n", "command must be a non-empty list of strings"),
        ("[process]\ncommand = []\n", "command must be a non-empty list"),
        ("[process]\nprefork = 1\n", "prefork must be true or false"),
        ("process = 1\n", "must be a table"),
        ("port = 1\n", "unknown table or key 'port'"),
        ("[process\n", "is no TOML"),
        ("", "neither .* nor a CMD"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, toml: str, words: str) -> None:
    (tmp_path / "agentenv.toml").write_text(toml)
    with pytest.raises(SandboxUnsupported, match=f"(?s)env '{tmp_path.name}'.*{words}"):
        read_settings(tmp_path)


def test_tables_of_other_providers_are_theirs(tmp_path: Path) -> None:
    (tmp_path / "agentenv.toml").write_text(
        "startup_timeout = 9\n[docker]\nread_only = true\n[process]\ncommand = ['python', 'a.py']\n"
    )
    assert read_settings(tmp_path).command == ("python", "a.py")


def test_the_module_to_fork() -> None:
    assert module_of(("python", "server.py"), "/app") == "server.py"
    assert module_of(("python3", "-u", "/app/src/server.py"), "/app") == "src/server.py"
    assert module_of(("/usr/bin/python3.11", "-m", "pkg.server"), "/app") == "pkg.server"
    for command in (("uvicorn", "x:y"), ("python", "a.py", "--x"), ("python", "-c", "1"), ("python", "../a.py")):
        with pytest.raises(Unfit, match="its command"):
            module_of(command, "/app")
