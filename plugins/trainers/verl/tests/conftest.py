from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent
ROOT = HERE.parents[3]


@pytest.fixture(scope="session")
def venv_python(real_python: Callable[[str], Path]) -> str:
    """The Python that has the real verl."""
    return str(real_python("verl"))


@pytest.fixture(scope="session")
def play_real(venv_python: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """``await play_real(runs)``: runs of ``real_loop.py`` in one process."""
    home = tmp_path_factory.mktemp("home")

    async def play(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))},
            "HF_HOME": str(home),
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
            "TOKENIZERS_PARALLELISM": "false",
        }
        process = await asyncio.create_subprocess_exec(
            venv_python,
            str(HERE / "real_loop.py"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
        )
        try:
            async with asyncio.timeout(250):
                out, err = await process.communicate(json.dumps(runs).encode())
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert process.returncode == 0, err.decode()[-4000:]
        answers: list[dict[str, Any]] = json.loads(out.decode().strip().splitlines()[-1])
        return answers

    return play
