"""A trainer's process that ends, in whatever way, leaves no env behind."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import pytest
from agent_env.testing.small import serve_in_process, small_bundle

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import os, signal, sys
from agent_env.training.trl import BundleSpec
spec = BundleSpec(sys.argv[1])
environments = [spec.environment_factory() for _ in range(3)]
for environment in environments:
    environment.reset(**spec.rows("train")[0])
    print(environment.look(), flush=True)
{end}
"""


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("", 0),
        ("raise SystemExit(3)", 3),
        ("raise RuntimeError('the trainer failed')", 1),
        ("pid = os.fork()\nif pid == 0:\n    sys.exit(0)\nos.waitpid(pid, 0)\nprint(environments[0].look())", 0),
        ("os.kill(os.getpid(), signal.SIGKILL)", -9),
    ],
)
def test_envs_end_with_the_process(tmp_path: Path, end: str, code: int) -> None:
    async def main() -> None:
        async with serve_in_process(small_bundle(tmp_path / "small")) as served, asyncio.timeout(60):
            program = PROGRAM.format(end=end)
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", program, served.url, stdout=-1, stderr=-1
            )
            out, err = await process.communicate()
            assert process.returncode == code, err.decode()
            assert out.count(b"xyzzy") == (4 if "fork" in end else 3)
            assert (b"Traceback" in err) == (code == 1), err.decode()
            await served.quiet()

    asyncio.run(main())
