from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent
ROOT = HERE.parents[3]
_CHECK = "        day = self._open_day()\n        if self._checks_used >= CHECKS:"
_DIE = "        if plan[0] == 99:\n            import os\n\n            os._exit(7)\n"


@pytest.fixture(scope="session")
def venv(real_python: Callable[[str], Path]) -> Path:
    """The Python that has the real SkyRL."""
    return real_python("skyrl")


@pytest.fixture(scope="session")
def real(venv: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the real generator made of GridSim, by the name of the run."""
    bundle = tmp_path_factory.mktemp("skyrl") / "gridsim"
    shutil.copytree(ROOT / "examples" / "gridsim", bundle)
    server = bundle / "envs" / "gridsim" / "server.py"
    source = server.read_text("utf-8")
    assert _CHECK in source
    server.write_text(source.replace(_CHECK, _DIE + _CHECK), "utf-8")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "HF_HOME": str(bundle.parent / "hf")}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        [str(venv), str(HERE / "real_generator.py"), str(bundle)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report
