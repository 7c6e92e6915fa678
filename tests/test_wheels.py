"""What users install: every distribution builds, none holds another's files, and all together work."""

from __future__ import annotations

import json
import subprocess
import zipfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tests.conftest import Environment

NAMESPACES = {
    PurePosixPath("agent_env"),
    *(PurePosixPath("agent_env") / kind for kind in ("sandboxes", "training", "rewards", "parsers")),
}
KIND_FOLDERS = {"sandbox": "sandboxes", "trainer": "training", "reward": "rewards", "parser": "parsers"}


def files_of(wheel: Path) -> list[PurePosixPath]:
    with zipfile.ZipFile(wheel) as archive:
        return [PurePosixPath(name) for name in archive.namelist() if ".dist-info/" not in name]


def own_folder(distribution: str) -> PurePosixPath:
    """The only folder that a distribution may write to."""
    if distribution == "agentenv-core":
        return PurePosixPath("agent_env")
    _, kind, leaf = distribution.split("-", 2)
    return PurePosixPath("agent_env") / KIND_FOLDERS[kind] / leaf.replace("-", "_")


def problems_of(distribution: str, files: list[PurePosixPath]) -> Iterator[str]:
    own = own_folder(distribution)
    is_core = distribution == "agentenv-core"
    for file in files:
        if file.parent in NAMESPACES and file.name == "__init__.py":
            yield f"{distribution} holds {file}, which hides every other distribution"
        elif file == PurePosixPath("_agentenv_start.py" if is_core else f"{distribution.replace('-', '_')}.py"):
            continue  # a start module, or the module under whose name a trainer looks the adapter up
        elif not file.is_relative_to(own) or (is_core and file.parts[1] in KIND_FOLDERS.values()):
            yield f"{distribution} holds {file} outside {own}"
    if own / "py.typed" not in files:
        yield f"{distribution} has no {own / 'py.typed'}"


def test_no_wheel_holds_a_namespace_or_the_files_of_another(wheels: Mapping[str, Path]) -> None:
    files = {name: files_of(wheel) for name, wheel in wheels.items()}
    assert [problem for name, found in files.items() for problem in problems_of(name, found)] == []
    assert all(any(file.suffix == ".py" for file in found) for found in files.values())
    together = [file for found in files.values() for file in found]
    assert len(together) == len(set(together))


@pytest.mark.parametrize(
    ("distribution", "file"),
    [
        ("agentenv-core", "agent_env/__init__.py"),
        ("agentenv-core", "agent_env/training/miles/agent.py"),
        ("agentenv-core", "tests/test_core.py"),
        ("agentenv-trainer-nemo-gym", "agent_env/training/__init__.py"),
        ("agentenv-trainer-nemo-gym", "agent_env/training/miles/agent.py"),
        ("agentenv-trainer-nemo-gym", "agent_env/errors.py"),
    ],
)
def test_the_check_finds_a_file_that_must_not_be_there(distribution: str, file: str) -> None:
    sound = [own_folder(distribution) / "py.typed", own_folder(distribution) / "x.py"]
    assert list(problems_of(distribution, sound)) == []
    assert len(list(problems_of(distribution, [*sound, PurePosixPath(file)]))) == 1
    assert len(list(problems_of(distribution, sound[1:]))) == 1


def test_all_wheels_work_together_in_an_empty_environment(
    everything: Environment, distributions: Mapping[str, Path]
) -> None:
    rows = json.loads(everything.run("agentenv", "plugins", "list", "--json", "--all"))
    assert [row for row in rows if row["status"] != "ok"] == []
    assert {row["distribution"] for row in rows} == set(distributions)
    assert {("sandbox", "process"), ("trainer", "miles"), ("reward", "weighted"), ("reward", "gate")} <= {
        (row["kind"], row["name"]) for row in rows
    }
    everything.run("agentenv", "plugins", "list", "--check")


def test_the_command_starts_there(everything: Environment) -> None:
    assert everything.run("agentenv", "--version").startswith("agentenv ")
    assert "plugins list" in everything.run("agentenv", "--help")


SANDBOXES = ("process", "docker", "e2b", "modal", "daytona")


@pytest.mark.parametrize("name", SANDBOXES)
def test_each_sandbox_provider_is_installed_alone(
    name: str, make_environment: Callable[[str], Environment], wheels: Mapping[str, Path]
) -> None:
    environment = make_environment(f"only-{name}")
    environment.install(wheels["agentenv-core"], wheels[f"agentenv-sandbox-{name}"])
    environment.run("agentenv", "plugins", "list", "--check")
    rows = json.loads(environment.run("agentenv", "plugins", "list", "--json", "--all"))
    found = {row["name"] for row in rows if row["kind"] == "sandbox" and row["status"] == "ok"}
    assert found == ({"e2b", "aenv"} if name == "e2b" else {name})


def test_a_missing_sdk_is_said_with_the_command_that_installs_it(
    make_environment: Callable[[str], Environment], wheels: Mapping[str, Path]
) -> None:
    environment = make_environment("no-sdk")
    environment.install(wheels["agentenv-core"])
    clouds = [name for name in SANDBOXES if name != "process"]
    environment.install("--no-deps", *(wheels[f"agentenv-sandbox-{name}"] for name in clouds))
    environment.run("agentenv", "plugins", "list", "--check")
    for name in clouds:
        command: list[str] = [str(environment.path / "bin" / "agentenv"), "sandbox", "ls", "--sandbox", name]
        keys = {"E2B_API_KEY": "e2b_" + "0" * 40, "DAYTONA_API_KEY": "dtn_x", "MODAL_TOKEN_ID": "x"}
        done = subprocess.run(
            command, env={**keys, "MODAL_TOKEN_SECRET": "x", "PATH": ""}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 1, done.stdout
        assert f"agentenv-sandbox-{name}" in done.stderr
        assert "pip install" in done.stderr, done.stderr
        assert "Traceback" not in done.stderr
