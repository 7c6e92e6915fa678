"""`make pins`, with a stand-in for uv."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BEFORE = """[tool.uv]
package = false
constraint-dependencies = [
  "old==1",
]

[tool.uv.workspace]
members = ["core"]
"""
EXPORTED = """-e ./core
new==2.1
numpy==2.4 ; python_full_version < '3.12'
odd==1 ; sys_platform == "win32"
"""
UV = """#!/bin/sh
grep -q 'constraint-dependencies = \\[\\]' pyproject.toml || {{ echo "the old pins are still there" >&2; exit 3; }}
[ "$1" != "{fails}" ] || {{ echo "{fails} does not work" >&2; exit 1; }}
[ "$1" != export ] || cat exported
"""


def pins(folder: Path, *, fails: str = "") -> subprocess.CompletedProcess[str]:
    (folder / "bench").mkdir()
    shutil.copy(ROOT / "bench" / "pins.py", folder / "bench")
    (folder / "pyproject.toml").write_text(BEFORE)
    (folder / "exported").write_text(EXPORTED)
    uv = folder / "uv"
    uv.write_text(UV.format(fails=fails))
    uv.chmod(0o755)
    command = [sys.executable, "bench/pins.py", "./uv"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


def test_the_versions_that_uv_resolves_without_the_old_pins_are_written(tmp_path: Path) -> None:
    done = pins(tmp_path)
    assert done.returncode == 0, done.stderr
    written = """constraint-dependencies = [
  "new==2.1",
  "numpy==2.4 ; python_full_version < '3.12'",
  'odd==1 ; sys_platform == "win32"',
]
"""
    block = BEFORE[BEFORE.index("constraint") : BEFORE.index("\n[tool.uv.workspace]")]
    assert (tmp_path / "pyproject.toml").read_text() == BEFORE.replace(block, written)


@pytest.mark.parametrize("step", ["lock", "export"])
def test_pins_stay_as_they_were_when_nothing_resolves(tmp_path: Path, step: str) -> None:
    done = pins(tmp_path, fails=step)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"{step} does not work",
        "error: no versions resolve together, as uv says above; pyproject.toml is as it was",
    ]
    assert (tmp_path / "pyproject.toml").read_text() == BEFORE
