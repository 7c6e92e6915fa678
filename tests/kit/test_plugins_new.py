"""A stranger's plugin of every kind: written by ``agentenv plugins new``, built, installed, listed, and held against
its own conformance test, in an environment that has nothing but the core."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Environment

KINDS = ["sandbox", "reward", "parser", "trainer", "step"]
CHECK = {
    "reward": ["acme-reward:grade", "--option", "steps=grade,format"],
    "step": ["acme-step", "--option", "env_id=room", "--option", "tool=look", "--option", "contains=xyzzy"],
}


@pytest.fixture(scope="module")
def written(stranger: Environment, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """``written("reward")``: the folder of an installed package of that kind; the second time it is there already."""
    base = tmp_path_factory.mktemp("strangers")

    def write(kind: str) -> Path:
        folder = base / f"acme-{kind}"
        if not folder.exists():
            stranger.run("agentenv", "plugins", "new", kind, f"acme-{kind}", "--out", folder)
            stranger.install(folder)
        return folder

    return write


@pytest.mark.parametrize("kind", KINDS)
def test_two_commands_lead_to_the_list(kind: str, stranger: Environment, written: Callable[[str], Path]) -> None:
    folder = written(kind)
    assert {".gitignore", "README.md", "pyproject.toml"} <= {path.name for path in folder.iterdir()}
    rows = json.loads(stranger.run("agentenv", "plugins", "list", "--json"))
    (row,) = [row for row in rows if row["distribution"] == f"acme-{kind}"]
    assert (row["kind"], row["name"], row["status"]) == (kind, f"acme-{kind}", "ok")
    assert row["summary"]
    assert row["home_page"] == f"https://example.com/acme-{kind}"
    assert f"acme-{kind} 0.1.0" in stranger.run("agentenv", "plugins", "list")
    stranger.run("agentenv", "plugins", "list", "--check")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.timeout(300)
def test_its_own_conformance_test_passes(kind: str, stranger: Environment, written: Callable[[str], Path]) -> None:
    folder = written(kind)
    said = stranger.run("python", "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", folder / "tests")
    assert " passed" in said
    assert "failed" not in said


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.timeout(300)
def test_it_is_checked_without_pytest(kind: str, stranger: Environment, written: Callable[[str], Path]) -> None:
    written(kind)
    arguments = CHECK.get(kind, [f"acme-{kind}"])
    report = json.loads(stranger.run("agentenv", "plugins", "check", *arguments, "--json"))
    assert report["kind"] == kind
    assert len(report["checks"]) >= 8
    assert {check["status"] for check in report["checks"]} <= {"passed", "skipped"}
    assert sum(check["status"] == "passed" for check in report["checks"]) >= 7


def test_the_wheel_holds_the_package_alone(stranger: Environment, written: Callable[[str], Path]) -> None:
    written("reward")
    code = "from importlib.metadata import files; print(*files('acme-reward'), sep='\\n')"
    listed = {line.partition("/")[0] for line in stranger.run("python", "-c", code).splitlines()}
    assert listed == {"acme_reward", "acme_reward-0.1.0.dist-info"}
