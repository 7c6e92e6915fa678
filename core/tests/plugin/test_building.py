"""Build contexts: what goes in, what the digest depends on, how the server starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from agent_env.errors import SandboxUnsupported
from agent_env.plugin.building import context, plan
from agent_env.plugin.building.dockerfile import parse

if TYPE_CHECKING:
    from pathlib import Path


def folder(path: Path, dockerfile: str, **files: str) -> Path:
    (path / "Dockerfile").write_text(dockerfile)
    for name, text in files.items():
        (path / name.replace("__", ".")).write_text(text)
    return path


def test_the_core_stands_in_the_staged_context_and_ignored_files_do_not(tmp_path: Path) -> None:
    env = tmp_path / "env"
    env.mkdir()
    folder(env, "FROM x\nCOPY . .\n", server__py="", secret__key="", __dockerignore="*.key\n")
    target = tmp_path / "staged"
    target.mkdir()
    found = context.read(env, "Dockerfile", provider="p", extra="ENTRYPOINT []")
    dockerfile = found.stage(target)
    assert "ENTRYPOINT []" in dockerfile.read_text()
    assert (target / "server.py").exists()
    assert not (target / "secret.key").exists()
    assert (target / ".agentenv/core/agent_env/errors.py").exists()


def test_the_digest_follows_content_and_nothing_else(tmp_path: Path) -> None:
    folder(tmp_path, "FROM x\n", server__py="a")
    first = context.read(tmp_path, "Dockerfile", provider="p").digest
    (tmp_path / "server.py").touch()
    assert context.read(tmp_path, "Dockerfile", provider="p").digest == first
    (tmp_path / "server.py").write_text("b")
    assert context.read(tmp_path, "Dockerfile", provider="p").digest != first


def test_a_plain_path_where_the_builder_expands_nothing(tmp_path: Path) -> None:
    folder(tmp_path, "FROM x\nENV PYTHONPATH=/lib/own\n")
    text = context.read(tmp_path, "Dockerfile", provider="p", expands=False).text
    assert 'ENV PYTHONPATH="/lib/own:/opt/agentenv/core"' in text


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ('FROM x\nCMD ["a", "b"]\n', ("a", "b")),
        ('FROM x\nENTRYPOINT ["e"]\nCMD ["a"]\n', ("e", "a")),
        ('FROM x\nCMD ["a"]\nENTRYPOINT ["e"]\n', ("e", "a")),
        ("FROM x\nCMD run me\n", ("/bin/sh", "-c", "run me")),
        ('FROM x\nENTRYPOINT run me\nCMD ["a"]\n', ("/bin/sh", "-c", "run me")),
        ('FROM x\nCMD ["a"]\nFROM y\n', None),
        ('FROM x\nCMD ["a"]\nRUN <<"END" sh\nCMD ["no"]\nEND\n', ("a",)),
        ("FROM x\n", None),
    ],
)
def test_the_command_is_that_of_the_last_stage(text: str, command: tuple[str, ...] | None) -> None:
    assert parse(text).command == command


@pytest.mark.parametrize(
    ("text", "workdir"),
    [("WORKDIR /a\nWORKDIR b/c", "/a/b/c"), ("WORKDIR b", None), ("WORKDIR $X", None), ("", None)],
)
def test_workdir(text: str, workdir: str | None) -> None:
    assert parse(f"FROM x\n{text}\n").workdir == workdir


def test_the_toml_speaks_where_the_dockerfile_is_silent(tmp_path: Path) -> None:
    folder(tmp_path, "FROM x\nEXPOSE 7000\n", agentenv__toml='[process]\ncommand = ["run"]\n[docker]\nport = 1\n')
    found = plan.server_of(tmp_path, "FROM x\nEXPOSE 7000\n", provider="p")
    assert (found.command, found.port) == (("run",), 7000)
    with pytest.raises(SandboxUnsupported, match="CMD"):
        plan.need_command(plan.ServerPlan(None, None, None), "env", provider="p")


@pytest.mark.parametrize("toml", ["[process]\ncommand = 3\n", "[process]\nport = 0\n", "process = 1\n", "[", '["x"'])
def test_a_wrong_toml_is_refused(tmp_path: Path, toml: str) -> None:
    (tmp_path / "agentenv.toml").write_text(toml)
    with pytest.raises(SandboxUnsupported, match=r"agentenv\.toml"):
        plan.server_of(tmp_path, "FROM x\n", provider="p")


def test_a_missing_dockerfile_is_told(tmp_path: Path) -> None:
    with pytest.raises(SandboxUnsupported, match="has no Dockerfile"):
        context.read(tmp_path, "Dockerfile", provider="p")
