"""The rollout loop of the real async trainer over our sessions."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.testing.small import serve_in_process, small_bundle

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.mark.timeout(300)
def test_the_async_trainers_loop_plays_our_sessions(run_real: Callable[..., str], tmp_path: Path) -> None:
    async def main() -> str:
        async with serve_in_process(small_bundle(tmp_path / "small")) as served:
            answer = await asyncio.to_thread(run_real, "real_async.py", served.url, timeout=280)
            await served.quiet()
            return answer

    report: dict[str, Any] = json.loads(asyncio.run(main()).splitlines()[-1])
    assert {name: report[name]["reward"] for name in ("found", "ended", "wrong", "died")} == {
        "found": 1.0,
        "ended": 1.0,
        "wrong": 0.0,
        "died": None,
    }
    assert report["found"]["messages"] == ["user", "assistant", "tool", "assistant"]
    assert (report["found"]["calls"], report["found"]["failures"], report["found"]["turns"]) == (1, 0, 2)
    assert (report["died"]["calls"], report["died"]["failures"], report["died"]["turns"]) == (1, 1, 1)
    assert all(report[name]["live"] == 0 for name in ("found", "ended", "wrong", "died"))
    assert report["nowhere"] == [None, None]
