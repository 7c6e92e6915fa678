"""What goes into a build context: .dockerignore, and the server's own core in the Dockerfile."""

from __future__ import annotations

import os
import tarfile
from typing import TYPE_CHECKING

import pytest
from agent_env.plugin.building import context, withcore
from agent_env.plugin.building.ignore import Ignore, files
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from pathlib import Path

FROM = "FROM python:3.11-slim\n"


@pytest.mark.parametrize(
    ("rules", "left_out", "kept"),
    [
        ("*.log\n", ["a.log"], ["d/a.log", "a.txt"]),
        ("**/*.log", ["a.log", "d/e/a.log"], ["a.txt"]),
        ("data\n", ["data", "data/x", "data/y/z"], ["data2", "more/data"]),
        ("/data/\n", ["data/x"], ["x"]),
        ("*\n!keep\n", ["a", "b/c"], ["keep", "keep/a"]),
        ("d/*\n!d/keep.md\n", ["d/a"], ["d/keep.md", "a"]),
        ("!a\na\n", ["a"], []),
        ("# a comment\n\nfile?.txt\n", ["file1.txt"], ["file.txt", "file12.txt"]),
        ("[ab].py", ["a.py", "b.py"], ["c.py"]),
        ("**/secret", ["secret", "x/secret", "x/y/secret/z"], ["secrets"]),
        ("a/**/z", ["a/z", "a/b/z", "a/b/c/z"], ["a/y"]),
    ],
)
def test_dockerignore(rules: str, left_out: list[str], kept: list[str]) -> None:
    ignore = Ignore(rules)
    assert [path for path in [*left_out, *kept] if ignore(path)] == left_out


def test_only_files_and_links_belong_to_it(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    (tmp_path / "b").symlink_to("nowhere")
    (tmp_path / "c").mkdir()
    os.mkfifo(tmp_path / "d")
    assert list(files(tmp_path)) == ["a", "b"]


@given(st.text(alphabet="ab*?[]!/.\\\n #", max_size=20), st.text(alphabet="ab/.", min_size=1, max_size=10))
def test_any_dockerignore_can_be_read(rules: str, path: str) -> None:
    assert Ignore(rules)(path) in {True, False}


def test_our_core_stands_last_on_the_path_of_modules() -> None:
    text = withcore.with_core(f'{FROM}USER me\nENV PYTHONPATH=/mine\nCMD ["python"]', installs=False)
    added = text.splitlines()[-2:]
    assert added[0] == "COPY .agentenv/core /opt/agentenv/core"
    assert added[1] == 'ENV PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}/opt/agentenv/core"'
    assert "wheels" not in text


def test_installers_get_our_wheel_in_every_stage() -> None:
    text = withcore.with_core(
        "# FROM a comment\nARG V=1\nfrom \\\n  base AS one\nRUN pip install agentenv-core\n"
        "FROM base\nRUN cat <<EOF\nFROM x\nEOF\n",
        installs=True,
    )
    lines = text.splitlines()
    assert [lines[place - 1] for place, line in enumerate(lines) if line.startswith("COPY .agentenv/wheels")] == [
        "  base AS one",
        "FROM base",
    ]
    assert "PIP_CONSTRAINT=/opt/agentenv/wheels/constraints.txt" in text


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("agentenv-core>=0.1", True),
        ("RUN pip install Agentenv_Core[server]", True),
        ("# agentenv-core", False),
        ("agentenv-core-tools", False),
        ("agentenv", False),
    ],
)
def test_who_asks_for_our_core(text: str, named: bool) -> None:
    assert withcore.names_core(text) is named


def env(folder: Path, text: str = f'{FROM}CMD ["python", "server.py"]\n', **files: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "Dockerfile").write_text(text)
    for name, content in files.items():
        (folder / name.replace("_", ".", 1)).write_text(content)
    return folder


def test_the_digest_is_of_the_content(tmp_path: Path) -> None:
    first = context.read(env(tmp_path / "one", server_py="print(1)"), "Dockerfile", provider="p")
    same = context.read(env(tmp_path / "two", server_py="print(1)"), "Dockerfile", provider="p")
    other = context.read(env(tmp_path / "three", server_py="print(2)"), "Dockerfile", provider="p")
    assert first.digest == same.digest != other.digest
    (tmp_path / "two" / ".dockerignore").write_text("notes.md\n.dockerignore\n")
    (tmp_path / "two" / "notes.md").write_text("not in the image")
    assert context.read(tmp_path / "two", "Dockerfile", provider="p").digest == first.digest


def test_the_packed_context(tmp_path: Path) -> None:
    folder = env(tmp_path / "e", requirements_txt="agentenv-core\nhttpx\n", server_py="import agent_env.env")
    with context.read(folder, "Dockerfile", provider="p").pack() as packed, tarfile.open(fileobj=packed) as tar:
        names = tar.getnames()
        constraints = tar.extractfile(".agentenv/wheels/constraints.txt")
        assert constraints is not None
        assert b"agentenv-core @ file:///opt/agentenv/wheels/agentenv_core-" in constraints.read()
        assert "server.py" in names
        assert ".agentenv/core/agent_env/env/server.py" in names
        assert any(name.endswith(".pyc") for name in names), "every start would compile our core"
        assert all(member.mtime == 0 for member in tar.getmembers())


def test_the_package_that_claims_our_name_keeps_it(tmp_path: Path) -> None:
    found = context.read(env(tmp_path / "e", requirements_txt="agentenv-framework==1.0\n"), "Dockerfile", provider="p")
    assert not found.with_core
    assert ".agentenv" not in found.text
