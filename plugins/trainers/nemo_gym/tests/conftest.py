from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

HERE = Path(__file__).parent
ROOT = HERE.parents[3]
SERVERS = ("resources_servers/agentenv", "responses_api_agents/simple_agent", "responses_api_models/vllm_model")


@pytest.fixture(scope="session")
def venv(real_python: Callable[[str], Path]) -> Path:
    """The Python that has the real NeMo Gym."""
    return real_python("nemo_gym")


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


@pytest.fixture
def run_gym(venv: Path, tmp_path: Path, new_port: Callable[[], int]) -> Generator[Callable[..., Awaitable[str]]]:
    """Run a command of NeMo Gym in ``tmp_path``; gives what it said.

    Each of its servers gets the Python of ``venv`` instead of an environment made for it.
    """
    for server in (
        "resources_servers/agentenv",
        "responses_api_agents/simple_agent",
        "responses_api_models/vllm_model",
    ):
        place = tmp_path / "venvs" / server
        place.mkdir(parents=True)
        (place / ".venv").symlink_to(venv.parents[1])
    settings = (f"+uv_venv_dir={tmp_path / 'venvs'}", "+skip_venv_if_present=true")
    ray = tempfile.mkdtemp(prefix="ae-ray-")  # the names of its sockets must be short

    async def run(*words: str) -> str:
        own = {"PATH": f"{venv.parent}:{os.environ['PATH']}", "HOME": ray, "RAY_TMPDIR": ray, "WANDB_MODE": "disabled"}
        # Ray takes a program below `uv run` for one of that project.
        settled = {"RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0", "RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1"}
        environment = {**os.environ, **own, **settled}
        environment.pop("PYTHONPATH", None)
        head = ("+head_server.host=127.0.0.1", f"+head_server.port={new_port()}")
        log = tmp_path / "gym.log"
        with log.open("wb") as output:
            child = await asyncio.create_subprocess_exec(
                *(*words, *settings, *head),
                cwd=tmp_path,
                env=environment,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            try:
                async with asyncio.timeout(200):
                    status = await child.wait()
            finally:
                with contextlib.suppress(ProcessLookupError):  # its servers are processes of its group
                    os.killpg(child.pid, signal.SIGKILL)
                await child.wait()
        said = log.read_text("utf-8", "replace")
        assert status == 0, said[-6000:]
        return said

    yield run
    shutil.rmtree(ray, ignore_errors=True)
