"""Wheels of every distribution and an environment with all of them, each made once."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

ROOT = Path(__file__).resolve().parents[1]


def run(command: Sequence[str | Path], cwd: Path, timeout: float = 300) -> str:
    """Run a command that has to work; its output is shown when it does not."""
    clean = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={name: value for name, value in clean.items() if not name.startswith("AGENTENV_")},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@dataclass(frozen=True)
class Environment:
    """A Python environment of its own."""

    path: Path
    uv: str

    @property
    def python(self) -> Path:
        return self.path / "bin" / "python"

    def install(self, *what: str | Path) -> None:
        run([self.uv, "pip", "install", "-q", "--python", self.python, *what], self.path.parent)

    def uninstall(self, *names: str) -> None:
        run([self.uv, "pip", "uninstall", "-q", "--python", self.python, *names], self.path.parent)

    def run(self, *command: str | Path) -> str:
        """Run a program of the environment, from a folder that holds nothing."""
        empty = self.path.parent / "empty"
        empty.mkdir(exist_ok=True)
        return run([self.path / "bin" / str(command[0]), *command[1:]], empty)


@pytest.fixture(scope="session")
def uv() -> str:
    """The uv that runs the tests, or the one on the path."""
    found = os.environ.get("UV") or shutil.which("uv")
    assert found is not None, "these tests need uv: run them with `make test` or `uv run pytest`"
    return found


@pytest.fixture(scope="session")
def distributions() -> Mapping[str, Path]:
    """Folder of each distribution of this repository, by name."""
    import tomllib

    folders = [ROOT / "core", *sorted(path.parent for path in ROOT.glob("plugins/*/*/pyproject.toml"))]
    named = {tomllib.loads((folder / "pyproject.toml").read_text())["project"]["name"]: folder for folder in folders}
    assert len(named) == len(folders) >= 5
    return named


@pytest.fixture(scope="session")
def wheels(distributions: Mapping[str, Path], uv: str, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """A wheel of each distribution, by its name; built once for all workers."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.with_name(f"{folder.name.partition('-')[0]}-all")
    folder = folder / "wheels"
    folder.mkdir(parents=True, exist_ok=True)
    built: dict[str, Path] = {}
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for name, source in distributions.items():
            out = folder / name
            if not any(out.glob("*.whl")):
                run([uv, "build", "-q", "--wheel", "--out-dir", out, source], folder)
            (built[name],) = out.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def make_environment(uv: str, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Environment]:
    """An empty environment with the Python of the tests."""

    def make(name: str) -> Environment:
        path = tmp_path_factory.mktemp(name) / "venv"
        run([uv, "venv", "-q", "--no-project", "--python", sys.executable, path], path.parent)
        return Environment(path, uv)

    return make


@pytest.fixture(scope="session")
def everything(make_environment: Callable[[str], Environment], wheels: Mapping[str, Path]) -> Environment:
    """An environment with all wheels and what they need."""
    environment = make_environment("everything")
    core = wheels["agentenv-core"]
    environment.install(f"agentenv-core[server] @ {core.as_uri()}", *wheels.values())
    return environment
