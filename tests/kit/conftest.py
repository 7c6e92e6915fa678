"""What a stranger has: the core as a server, Miles' adapter, and pytest."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.conftest import run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tests.conftest import Environment


@pytest.fixture(scope="session")
def stranger(
    make_environment: Callable[[str], Environment],
    distributions: Mapping[str, Path],
    uv: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Environment:
    """An environment without a checkout of this repository: three wheels, built outside the workspace."""
    base = tmp_path_factory.mktemp("core")
    wheels: dict[str, Path] = {}
    for name in ("agentenv-core", "agentenv-sandbox-process", "agentenv-trainer-miles"):
        shutil.copytree(distributions[name], base / name, ignore=shutil.ignore_patterns("__pycache__", ".*"))
        run([uv, "build", "-q", "--wheel", "--no-sources", "--out-dir", base / "wheels", base / name], base)
        (wheels[name],) = (base / "wheels").glob(f"{name.replace('-', '_')}-*.whl")
    environment = make_environment("stranger")
    core = f"agentenv-core[server,testing] @ {wheels['agentenv-core'].as_uri()}"
    environment.install(core, *(wheel for name, wheel in wheels.items() if name != "agentenv-core"))
    return environment
