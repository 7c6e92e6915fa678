"""An SDK that is too old or does not import is said in words, with the command that mends it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

AGENTENV = str(Path(sys.executable).parent / "agentenv")
KEYS = {
    "E2B_API_KEY": "e2b_" + "0" * 40,
    "DAYTONA_API_KEY": "dtn_x",
    "MODAL_TOKEN_ID": "x",
    "MODAL_TOKEN_SECRET": "x",
    "AENV_URL": "http://127.0.0.1:9",
}


@pytest.fixture
def lists_with(tmp_path: Path) -> Callable[..., str]:
    """What ``agentenv sandbox ls`` says when another SDK comes first."""

    def run(provider: str, package: str, version: str, code: str) -> str:
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text(code)
        about = tmp_path / f"{package}-{version}.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
        command = [AGENTENV, "sandbox", "ls", "--sandbox", provider]
        environment = {**os.environ, **KEYS, "PYTHONPATH": str(tmp_path)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 1, done.stdout
        assert "Traceback" not in done.stderr
        return " ".join(done.stderr.split())

    return run


@pytest.mark.parametrize(
    ("provider", "package", "version", "wanted"),
    [
        ("e2b", "e2b", "2.49.1", "2.63"),
        ("aenv", "e2b", "1.9", "2.49"),
        ("modal", "modal", "1.2.0", "1.6.4"),
        ("daytona", "daytona", "0.25.0rc1", "0.226.1"),
    ],
)
def test_an_sdk_that_is_too_old(
    lists_with: Callable[..., str], provider: str, package: str, version: str, wanted: str
) -> None:
    said = lists_with(provider, package, version, "" if version != "2.49.1" else WHOLE)
    plugin = "agentenv-sandbox-e2b" if package == "e2b" else f"agentenv-sandbox-{provider}"
    assert f"{plugin} needs {package} {wanted} or newer, and {version} is installed" in said
    assert f"pip install --upgrade {plugin}" in said


WHOLE = """
import sys, types
for name in ("exceptions", "api", "api.client_async", "connection_config"):
    sys.modules[f"e2b.{name}"] = types.ModuleType(name)
"""
"""All modules that are imported are there, as in an old version that has them."""


@pytest.mark.parametrize("name", ["e2b", "modal", "daytona"])
def test_an_sdk_that_does_not_import(lists_with: Callable[..., str], name: str) -> None:
    said = lists_with(name, name, "9999.0", "raise TypeError('descriptors cannot be created directly')")
    assert f"{name} 9999.0, which agentenv-sandbox-{name} needs" in said
    assert "cannot be imported (TypeError: descriptors cannot be created directly)" in said
    assert f"pip install --upgrade --force-reinstall agentenv-sandbox-{name}" in said
