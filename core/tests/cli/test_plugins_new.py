"""``agentenv plugins new``: names that are refused, and folders that stay as they are."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from agent_env.cli.plugins_new import KINDS, class_of, module_of, name_problem, write_plugin
from agent_env.errors import UsageError
from agent_env.registry import Registry, default_registry
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_package_is_whole(kind: str, tmp_path: Path) -> None:
    write_plugin(kind, "acme-box2", tmp_path / "x")
    project = tomllib.loads((tmp_path / "x" / "pyproject.toml").read_text())
    assert project["project"]["name"] == "acme-box2"
    assert project["project"]["dependencies"] == ["agentenv-core>=0.1,<0.2"]
    assert project["project"]["entry-points"] == {"agentenv": {"acme_box2": "acme_box2.hooks"}}
    files = {path.relative_to(tmp_path / "x").as_posix() for path in (tmp_path / "x").rglob("*") if path.is_file()}
    assert {
        ".gitignore",
        "README.md",
        "src/acme_box2/__init__.py",
        "src/acme_box2/hooks.py",
        "src/acme_box2/py.typed",
        "tests/test_conformance.py",
    } <= files
    for name in files:
        text = (tmp_path / "x" / name).read_text()
        assert "__NAME__" not in text + name
        assert not any(f"__{word}__" in text + name for word in ("DIST", "MODULE", "CLASS", "SUMMARY"))
        if name.endswith(".py"):
            compile(text, name, "exec")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x"]


@pytest.mark.parametrize(
    ("kind", "name", "words"),
    [
        ("reward", "Acme_Brisk", "'acme-brisk' would do"),
        ("reward", "acme--brisk", "'acme-brisk' would do"),
        ("reward", "-acme", "'acme' would do"),
        ("reward", "1st", "starts with a lower-case letter"),
        ("reward", "", "starts with a lower-case letter"),
        ("reward", "über", "cannot be a plugin's name"),
        ("reward", "../x", "cannot be a plugin's name"),
        ("reward", "a" * 65, "at most 64 characters"),
        ("reward", "class", "a word of Python"),
        ("reward", "match", "a word of Python"),
        ("reward", "json", "a module of its library"),
        ("reward", "agentenv-reward-acme", "belongs to AgentEnv"),
        ("reward", "agentenv", "belongs to AgentEnv"),
        ("reward", "agent-env", "belongs to AgentEnv"),
        ("reward", "pydantic", "belongs to AgentEnv or to what it needs"),
        ("reward", "step", "has a meaning of its own in specs"),
        ("reward", "combiner", "has a meaning of its own in specs"),
        ("reward", "weighted", "belongs to agentenv-reward-basic"),
        ("sandbox", "modal", "belongs to agentenv-sandbox-modal"),
        ("trainer", "miles", "belongs to agentenv-trainer-miles"),
        ("parser", "hermes", "belongs to agentenv-parser-qwen"),
        ("step", "deploy_env", "is installed already, from agentenv-core"),
    ],
)
def test_names_that_are_refused(kind: str, name: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        write_plugin(kind, name, tmp_path / "x", default_registry())
    assert words in str(error.value)
    assert not (tmp_path / "x").exists()


@given(st.sampled_from(KINDS), st.text("abz09-_. A", max_size=8) | st.text(max_size=8))
def test_a_name_that_passes_fits_everywhere(kind: str, name: str) -> None:
    if name_problem(kind, name, Registry(entry_points=False)) is None:
        assert module_of(name).isidentifier()
        assert class_of(name).isidentifier()
        assert name == name.lower().strip("-_.")
        assert not name.startswith("agentenv")


def test_what_is_there_stays(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    for name in ("full", "file", "link"):
        with pytest.raises(UsageError, match="is there already and is not an empty folder"):
            write_plugin("reward", "acme", tmp_path / name)
    with pytest.raises(UsageError, match="cannot be written"):
        write_plugin("reward", "acme", tmp_path / "file" / "below")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "full", "link", "mine.txt"]
    (tmp_path / "empty").mkdir()
    write_plugin("reward", "acme", tmp_path / "empty")
    write_plugin("reward", "acme", tmp_path / "new" / "deep")
    assert (tmp_path / "new" / "deep" / "pyproject.toml").is_file()


def test_the_command(agentenv: Run, tmp_path: Path) -> None:
    done = agentenv("plugins", "new", "reward", "acme-brisk")
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "wrote the reward plugin acme-brisk to acme-brisk",
        "  pip install ./acme-brisk",
        "  agentenv plugins list",
    ]
    assert (tmp_path / "acme-brisk" / "pyproject.toml").is_file()
    again = agentenv("plugins", "new", "reward", "acme-brisk")
    assert again.returncode == 2
    assert again.stderr.startswith("error: acme-brisk is there already")
    assert agentenv("plugins", "new", "cheese", "acme").returncode == 2
