"""``agentenv rows``: the same rows by the trainer's name."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = "import sys\nfrom _agentenv_start import main\nsys.argv[0] = 'agentenv'\nmain()"


async def agentenv(*arguments: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()


def test_it_writes_what_the_trainers_own_command_writes(serve: Any, rows: Any, tmp_path: Path) -> None:
    async def main() -> None:
        async with serve() as served:
            out = tmp_path / "rows"
            arguments = ("--tool-timeout", "5", "--reset-timeout", "10", "--model-timeout", "20")
            code, printed, errors = await agentenv("rows", "miles", served.url, str(out), *arguments)
            assert (code, errors) == (0, "")
            assert printed == f"wrote all.jsonl, eval.jsonl, train.jsonl to {out}\n"
            await rows(served.url, tool_timeout=5.0, reset_timeout=10.0, model_timeout=20.0)
            for name in ("all.jsonl", "eval.jsonl", "train.jsonl"):
                assert (out / name).read_text() == (tmp_path / "data" / name).read_text()

    asyncio.run(main())


def test_wrong_names_and_servers_are_one_line(tmp_path: Path) -> None:
    async def main() -> None:
        code, _, errors = await agentenv("rows", "mils", "http://127.0.0.1:9", str(tmp_path / "rows"))
        assert code != 0
        assert "miles" in errors
        assert "Traceback" not in errors
        code, _, errors = await agentenv("rows", "miles", "http://127.0.0.1:9", str(tmp_path / "rows"))
        assert code == 1
        assert "cannot reach" in errors
        code, _, errors = await agentenv(
            "rows", "miles", "http://127.0.0.1:9", str(tmp_path / "rows"), "--parser", "no-such-parser"
        )
        assert code != 0
        assert "no-such-parser" in errors
        assert not (tmp_path / "rows").exists()

    asyncio.run(main())
