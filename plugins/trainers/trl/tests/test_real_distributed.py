"""A group that is spread over two processes of a real process group."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest
from agent_env.testing.small import serve_in_process, small_bundle

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.mark.timeout(300)
def test_drop_reaches_the_other_process(run_real: Callable[..., str], tmp_path: Path) -> None:
    async def main() -> str:
        async with serve_in_process(small_bundle(tmp_path / "small")) as served:
            answer = await asyncio.to_thread(run_real, "real_distributed.py", served.url, str(tmp_path), timeout=280)
            await served.quiet()
            return answer

    lines = asyncio.run(main()).splitlines()[-2:]
    assert [json.loads(line) for line in lines] == [[None, 1.0], [None, 1.0]]
