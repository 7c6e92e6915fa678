"""The real GRPOTrainer on a served bundle, on a CPU: it learns what depends on the prompt; failures do no harm."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LAMPS = Path(__file__).parent / "lamps"
WISHES = {
    wish["id"]: wish
    for wish in map(json.loads, (LAMPS / "tasks" / "lamp.seeds.jsonl").read_text(encoding="utf-8").splitlines())
}
RISE = 0.25
"""By how much the mean reward of the last ten steps must be above that of the first five, and the held-out reward, and
the share of right colours, above those before the training."""
ABOVE_BLIND = 0.3
"""By how much the held-out reward must be above that of the best policy that does not read the prompt."""


@pytest.mark.timeout(900)
def test_what_the_prompt_asks_for_is_learned(
    run_real: Callable[..., str], serve: Callable[..., Any], tmp_path: Path
) -> None:
    out = tmp_path / "report.json"
    with serve(LAMPS, limit=100) as url:
        run_real("train_lamps.py", url, str(out), timeout=880)
    report: dict[str, Any] = json.loads(out.read_text())
    rewards: list[float] = report["rewards"]
    assert fmean(rewards[-10:]) > fmean(rewards[:5]) + RISE, rewards
    log = report["last_log"]
    assert log["agentenv/failed"] == 0
    assert log["agentenv/scores/grade"] == pytest.approx(log["reward"])
    assert report["open_after_training"] == 0

    before, after = report["held_out"]["before"], report["held_out"]["after"]
    held_out = {task for task in WISHES if task.startswith("eval-")}
    assert Counter(rollout["task"] for rollout in after) == dict.fromkeys(held_out, 4)
    for rollout in (*before, *after):
        assert rollout["reward"] == pytest.approx(worth(rollout["task"], rollout["arguments"])), rollout
    gained = mean_by_prompt(after)
    assert gained > mean_by_prompt(before) + RISE, (before, after)
    assert gained > best_blind(held_out) + ABOVE_BLIND, after
    # A policy that reads only one half of the prompt gets one argument right; this one gets both.
    assert right(after, "room") > 0.7
    assert right(after, "colour") > right(before, "colour") + RISE


def worth(task: str, arguments: dict[str, str]) -> float:
    """What a call earns, as the tasks' texts say it; the bundle's verifier is not asked."""
    wish = WISHES[task]
    if set(arguments) != {"room", "colour"} or (arguments["room"], arguments["colour"]) == (wish["room"], wish["now"]):
        return 0.0
    wheel = ["red", "orange", "yellow", "green", "blue", "violet"]
    apart = (wheel.index(arguments["colour"]) - wheel.index(wish["wanted"])) % 6
    close = {0: 1.0, 1: 0.4, 5: 0.4}.get(apart, 0.0)
    return (float(arguments["room"] == wish["room"]) + close) / 2


def mean_by_prompt(rollouts: Sequence[dict[str, Any]]) -> float:
    """The mean over prompts of each prompt's mean reward."""
    return fmean(
        fmean(one["reward"] for one in rollouts if one["task"] == task) for task in {one["task"] for one in rollouts}
    )


def best_blind(tasks: set[str]) -> float:
    """The mean reward of the best call that is the same for every prompt."""
    rooms, colours = ({wish[key] for wish in WISHES.values()} for key in ("room", "wanted"))
    calls = [{"room": room, "colour": colour} for room in rooms for colour in colours]
    return max(fmean(worth(task, call) for task in tasks) for call in calls)


def right(rollouts: Sequence[dict[str, Any]], argument: str) -> float:
    """How often an argument is the one that the prompt asks for."""
    key = {"room": "room", "colour": "wanted"}[argument]
    return fmean(one["arguments"].get(argument) == WISHES[one["task"]][key] for one in rollouts)


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
