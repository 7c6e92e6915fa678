"""The real GRPOTrainer goes on while envs and verifiers of the served bundle break, and no 0 is counted."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

LAMPS = Path(__file__).parent / "lamps"
LIMIT = 16
OVER = "The episode is over: this call was not run."
BREAKS = """
import os


def breaks(wish):
    # One in nine. Never the held-out tasks, whose wishes are a room and the colour of the same number, nor the first
    # task, with which the tools are listed.
    rooms, colours = "hall kitchen cellar attic study", "red orange yellow green blue violet"
    held_out = rooms.split().index(wish["room"]) == colours.split().index(wish["wanted"])
    first = wish["room"] == "hall" and wish["wanted"] == "orange"
    return not held_out and not first and os.urandom(1)[0] < 28
"""
PATCHES = {
    "envs/house/server.py": {
        "        self.reset()\n        self.wished": "        if breaks({'room': room, 'wanted': wanted}):\n"
        "            raise RuntimeError('no lamp to be had')\n        self.reset()\n        self.wished",
        "        if self.lit:\n": "        if breaks(self.wished):\n            os._exit(9)\n        if self.lit:\n",
    },
    "artifacts/grade/verify.py": {
        "    if not lit:\n": "    if breaks(wished):\n        raise RuntimeError('broken')\n    if not lit:\n",
    },
}


@pytest.fixture
def breaking(tmp_path: Path) -> Path:
    """``lamps`` whose resets fail, whose envs die in a call and whose verifiers raise, each in one of nine episodes."""
    bundle = Path(shutil.copytree(LAMPS, tmp_path / "lamps"))
    for name, patches in PATCHES.items():
        text = (bundle / name).read_text(encoding="utf-8")
        for old, new in patches.items():
            assert text.count(old) == 1
            text = text.replace(old, new)
        first = "\n\nclass House" if "class House" in text else "\n\ndef verify"
        (bundle / name).write_text(text.replace(first, f"\n{BREAKS}{first}", 1), encoding="utf-8")
    return bundle


@pytest.mark.timeout(400)
def test_training_goes_on_while_episodes_fail(
    run_real: Callable[..., str], serve: Callable[..., Any], breaking: Path, tmp_path: Path
) -> None:
    with serve(breaking, limit=LIMIT) as url:
        said = run_real("real_outages.py", url, str(tmp_path / "out"), str(LIMIT), timeout=380)
    report: dict[str, Any] = json.loads(said.splitlines()[-1])
    batches: list[dict[str, Any]] = report["batches"]
    rewards = [reward for batch in batches for reward in batch["rewards"]]
    failed = rewards.count(None) / len(rewards)
    assert len(rewards) == 8 * 16
    assert 0.1 < failed < 0.5
    kinds = [kind for batch in batches for kind in batch["kinds"]]
    assert set(kinds) == {"", "env", "verifier"}
    assert [kind != "" for kind in kinds] == [reward is None for reward in rewards]
    for batch, logged in zip(batches, report["logged"], strict=True):
        scored = [reward for reward in batch["rewards"] if reward is not None]
        # Each reply earns what it is worth or nothing is known of it: a failure is never a 0.
        worth = [(1.0, 0.5, 1.0)[place % 3] for place in range(16)]
        assert all(reward in (None, own) for reward, own in zip(batch["rewards"], worth, strict=True))
        assert logged["failed"] == pytest.approx(1 - len(scored) / 16)
        assert logged["reward"] == pytest.approx(fmean(scored), abs=1e-3)
        for start in (0, 8):
            _check_group(batch["rewards"][start : start + 8], batch["advantages"][start : start + 8])
        _check_late_calls(batch)
    assert report["losses_finite"] is True
    assert report["weights_finite"] is True
    assert report["free_at_the_end"] == LIMIT


def _check_group(rewards: list[float | None], advantages: list[float]) -> None:
    assert all(gain == 0 for gain, reward in zip(advantages, rewards, strict=True) if reward is None)
    assert sum(advantages) == pytest.approx(0, abs=1e-3)
    known = {reward for reward in rewards if reward is not None}
    assert (max(advantages) > 0 > min(advantages)) == (len(known) > 1)


def _check_late_calls(batch: dict[str, Any]) -> None:
    """Every third rollout ends its episode and calls once more."""
    for told, reward in zip(batch["tools"][2::3], batch["rewards"][2::3], strict=True):
        assert told[-1] == OVER
        assert reward is None or told[:1] == ["set"]
