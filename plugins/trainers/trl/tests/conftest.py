from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

HERE = Path(__file__).parent
ROOT = HERE.parents[3]


@pytest.fixture(scope="session")
def venv(real_python: Callable[[str], Path]) -> Path:
    """The Python that has the real TRL."""
    return real_python("trl")


@pytest.fixture
def run_real(venv: Path) -> Callable[..., str]:
    """Run a script of this folder with the real TRL; gives its standard output."""

    def run(script: str, *arguments: str, stdin: str = "", timeout: float = 100, **variables: str) -> str:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", **variables}
        environment.pop("PYTHONPATH", None)
        done = subprocess.run(
            [str(venv), str(HERE / script), *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            env=environment,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    return run


@contextmanager
def serving(bundle: Path, *, limit: int) -> Generator[str]:
    """A bundle, served by the command line with ``limit`` episodes at most; gives its address."""
    command = [str(Path(sys.executable).parent / "agentenv"), "serve", str(bundle)]
    with (
        subprocess.Popen(
            [*command, "--port", "0", "--max-concurrent-envs", str(limit)],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
        ) as server,
        ThreadPoolExecutor(1) as reader,
    ):
        assert server.stderr is not None
        try:
            url = _address(server.stderr)
            # A server that fails episodes says so: were nobody to read it, it would stand still once the pipe is full.
            reader.submit(server.stderr.read)
            yield url
        finally:
            server.terminate()


@pytest.fixture
def serve() -> Callable[..., Any]:
    """`serving`."""
    return serving


def _address(lines: Any) -> str:
    said: list[str] = []
    for raw in lines:
        line = raw.decode()
        said.append(line)
        if "listening on " in line:
            return str(line.rpartition("listening on ")[2].split()[0])
    raise AssertionError("the server did not start: " + "".join(said)[-2000:])
