"""Commands as a user runs them: as processes, with plugins as files on the module path."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder that the commands of `agentenv` see as installed packages."""
    folder = tmp_path / "site"
    folder.mkdir()
    return folder


@pytest.fixture
def add_plugin(site: Path) -> Callable[[str, str, str, str], None]:
    """``add_plugin("acme-env", "2.0", "acme", "<text of acme_hooks.py>")``."""

    def add(distribution: str, version: str, entry_point: str, text: str) -> None:
        info = site / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
        (info / "entry_points.txt").write_text(f"[agentenv]\n{entry_point} = {entry_point}_hooks\n")
        (site / f"{entry_point}_hooks.py").write_text(dedent(text))

    return add


@pytest.fixture
def agentenv(site: Path, tmp_path: Path) -> Run:
    """``agentenv("plugins", "list", AGENTENV_DEBUG="1")`` runs the console script's function in a fresh process."""

    def run(*arguments: str, code: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
        program = f"import sys\nsys.argv[0] = 'agentenv'\n{code}\nfrom _agentenv_start import main\nmain()"
        clean = {name: value for name, value in os.environ.items() if not name.startswith("AGENTENV_")}
        return subprocess.run(
            [sys.executable, "-c", program, *arguments],
            env={**clean, "PYTHONPATH": str(site), "NO_COLOR": "1", **variables},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run
