"""The real GRPOTrainer on a served bundle, on a CPU: the mean reward rises; failed episodes do no harm."""

from __future__ import annotations

import json
from statistics import fmean
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MARGIN = 0.2
"""By how much the mean of the last ten steps must be above that of the first five; the curve in docs/ rose by 0.34."""


@pytest.mark.timeout(900)
def test_the_mean_reward_rises(run_real: Callable[..., str], serve_lamp: str, tmp_path: Path) -> None:
    curve = tmp_path / "curve.json"
    run_real("train_lamp.py", serve_lamp, str(curve), timeout=880)
    report: dict[str, Any] = json.loads(curve.read_text())
    rewards: list[float] = report["rewards"]
    assert len(rewards) == 45
    assert fmean(rewards[-10:]) > fmean(rewards[:5]) + MARGIN, rewards
    log = report["last_log"]
    assert log["agentenv/failed"] == 0
    assert log["agentenv/scores/grade"] == pytest.approx(log["reward"])
    assert report["open_after_training"] == 0


@pytest.mark.timeout(300)
def test_failed_episodes_are_left_out(run_real: Callable[..., str], tmp_path: Path) -> None:
    """Envs that die, in some and then in all rollouts of a batch: training goes on and no 0 is counted."""
    report: dict[str, Any] = json.loads(run_real("real_failures.py", str(tmp_path), timeout=280).splitlines()[-1])
    some, every = report["some"], report["every"]
    assert some["failed"] == 0.25
    assert some["rewards"] == [1.0, None, 0.0, 1.0]
    assert some["reward"] == pytest.approx(2 / 3, abs=1e-3)
    assert some["advantages"][1] == 0
    assert sum(some["advantages"]) == pytest.approx(0, abs=1e-3)
    assert max(some["advantages"]) > 0 > min(some["advantages"])
    assert every["rewards"] == [None] * 4
    assert every["advantages"] == [0, 0, 0, 0]
    assert report["finite"] is True
    assert report["left_open"] == 0
