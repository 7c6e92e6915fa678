from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from agent_env.errors import RateLimited, SandboxError, SandboxUnavailable
from agent_env.plugin.sandboxing.pacing import Pace
from agent_env.plugin.sandboxing.patience import Patience, pause
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from pathlib import Path


def _patience(pace: Pace, seconds: float) -> Patience:
    return Patience(pace, "box", asyncio.get_running_loop().time() + seconds)


@pytest.mark.parametrize("asked", [20.0, None])
def test_a_rate_limit_holds_all_for_as_long_as_is_asked_or_for_a_while(tmp_path: Path, asked: float | None) -> None:
    async def go() -> float:
        await _patience(Pace("x", rate=None, folder=tmp_path), 60).after(RateLimited("slow down", retry_after=asked))
        return await Pace("x", rate=None, folder=tmp_path).held()

    held = asyncio.run(go())
    assert (15 < held <= 20) if asked else (0 < held <= 0.5)


def test_what_lasts_longer_than_the_caller_waits_is_raised_at_once_and_holds_the_others_all_the_same(
    tmp_path: Path,
) -> None:
    async def go() -> None:
        pace = Pace("x", rate=None, folder=tmp_path)
        error = RateLimited("slow down", retry_after=50)
        with pytest.raises(RateLimited) as raised:
            await _patience(pace, 10).after(error)
        assert raised.value is error
        with pytest.raises(RateLimited, match="on hold for another") as raised:
            await _patience(pace, 10).before()
        assert raised.value.retryable
        assert raised.value.retry_after is not None
        assert raised.value.retry_after > 40
        await _patience(pace, 100).before()

    asyncio.run(go())


def test_a_service_out_of_reach_holds_nobody_else_and_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_env.plugin.sandboxing.patience._FIRST_S", 0.001)

    async def go() -> int:
        pace = Pace("x", rate=None, folder=tmp_path)
        patience, error = _patience(pace, 600), SandboxUnavailable("down")
        for count in range(100):
            try:
                await patience.after(error)
            except SandboxUnavailable:
                assert await pace.held() == 0
                return count
        return 100

    assert 1 <= asyncio.run(go()) <= 10


def test_what_is_not_retryable_is_raised(tmp_path: Path) -> None:
    async def go() -> None:
        error: SandboxError = SandboxUnavailable("closed", retryable=False)
        with pytest.raises(SandboxUnavailable, match="closed"):
            await _patience(Pace("x", rate=None, folder=tmp_path), 60).after(error)

    asyncio.run(go())


@given(st.integers(min_value=1, max_value=10_000))
def test_a_pause_is_positive_grows_and_has_an_end(failures: int) -> None:
    assert 0 < pause(failures) <= 30
    assert max(pause(failures) for _ in range(8)) <= 2 * max(pause(failures + 1) for _ in range(64))
