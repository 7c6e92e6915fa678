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
def venv(real_python: Callable[[str], Path]) -> Path:
    """The Python that has the real verifiers."""
    return real_python("verifiers")


@pytest.fixture
def run_real(venv: Path) -> Callable[..., Awaitable[list[dict[str, Any]]]]:
    """Play orders with the real verifiers, see ``real_run.py``; gives what it recorded."""

    async def run(*orders: dict[str, Any], timeout: float = 240, **variables: str) -> list[dict[str, Any]]:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", **variables}
        environment.pop("PYTHONPATH", None)
        child = await asyncio.create_subprocess_exec(
            str(venv),
            str(HERE / "real_run.py"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
        )
        try:
            async with asyncio.timeout(timeout):
                out, errors = await child.communicate(json.dumps(orders).encode())
        finally:
            if child.returncode is None:
                child.kill()
                await child.communicate()
        assert child.returncode == 0, errors.decode()[-3000:]
        done: list[dict[str, Any]] = json.loads(out.splitlines()[-1])
        return done

    return run
