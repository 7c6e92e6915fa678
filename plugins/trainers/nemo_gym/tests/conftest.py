from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

HERE = Path(__file__).parent
ROOT = HERE.parents[3]


@pytest.fixture(scope="session")
def venv() -> Path:
    """The Python that has the real NeMo Gym: `AGENTENV_VENV_NEMO_GYM` names it, or ``.venvs/nemo_gym`` holds it."""
    named = os.environ.get("AGENTENV_VENV_NEMO_GYM")
    python = Path(named) if named else ROOT / ".venvs" / "nemo_gym" / "bin" / "python"
    if not python.is_file():
        if named:
            pytest.fail(f"AGENTENV_VENV_NEMO_GYM names {named}, which is no file")
        pytest.skip("no NeMo Gym here: plugins/trainers/nemo_gym/tests/make_venv.sh .venvs/nemo_gym builds it")
    return python


@pytest.fixture
def run_real(
    venv: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]:
    """Run rows through the real NeMo Gym, see ``real_gym.py``."""

    folder = tmp_path_factory.mktemp("gym")  # NeMo Gym's configuration library writes into its working folder

    async def run(order: dict[str, Any]) -> dict[str, Any]:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "WANDB_MODE": "disabled"}
        environment.pop("PYTHONPATH", None)
        pipe = asyncio.subprocess.PIPE
        script = str(HERE / "real_gym.py")
        child = await asyncio.create_subprocess_exec(
            *(str(venv), script), stdin=pipe, stdout=pipe, stderr=pipe, env=environment, cwd=folder
        )
        try:
            async with asyncio.timeout(150):
                out, errors = await child.communicate(json.dumps(order).encode())
        finally:
            if child.returncode is None:
                child.kill()
                await child.communicate()
        assert child.returncode == 0, errors.decode()[-3000:]
        done: dict[str, Any] = json.loads(out.splitlines()[-1])
        return done

    return run
