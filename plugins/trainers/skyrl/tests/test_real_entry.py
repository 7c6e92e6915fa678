"""The entry point and the settings of the docs are SkyRL's."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
PAGE = HERE.parents[3] / "docs" / "training" / "skyrl.md"


@pytest.mark.timeout(200)
def test_the_documented_entry_point_is_taken(venv: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    environment.pop("PYTHONPATH", None)
    command = [str(venv), str(HERE / "real_entry.py"), str(PAGE)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=180, check=False, env=environment, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr[-3000:]
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert report["unknown"] == []
    assert report["named"] >= 10
    assert report["generator"][:2] == ["BundleGenerator", "SkyRLGymGenerator"]
    assert (report["max_turns"], report["train_data"]) == (12, ["rows/train.jsonl"])
    assert report["env"] == "agent_env.training.skyrl.env:BundleEnv"
    assert report["run_is_remote"]
