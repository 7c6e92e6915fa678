"""What a rehearsal says of what it found."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from agent_env.errors import Failure
from agent_env.plugin.trainer import RehearsalGroup, RehearsalSample
from agent_env.testing.rehearsal_report import Rehearsal, mean_and_stderr
from hypothesis import given
from hypothesis import strategies as st


def sample(reward: float | None, *, failure: Failure | None = None, warnings: tuple[str, ...] = ()) -> RehearsalSample:
    return RehearsalSample(
        task_id="@local/x/b/task",
        reward=reward,
        scores={} if reward is None else {"grade": reward},
        tool_calls=2,
        invalid_calls=1,
        failure=failure,
        turns=3,
        trained_tokens=40,
        seconds=0.5,
        timings={"deploy_s": 0.25, "tools_s": 0.125, "verifier_s": 0.5},
        warnings=warnings,
    )


def rehearsal(*groups: list[RehearsalSample], kept: bool = True) -> Rehearsal:
    return Rehearsal(
        trainer="miles",
        bundle="b",
        split="eval",
        groups=[RehearsalGroup(f"@local/x/b/{i}", kept, tuple(group)) for i, group in enumerate(groups)],
        seconds=2.0,
    )


def test_summary_counts_scored_episodes_only() -> None:
    down = Failure("env", "env 'grid' died", retryable=True)
    done = rehearsal([sample(0.5), sample(1.0)], [sample(None, failure=down), sample(0.75)])
    assert done.summary() == {
        "episodes": 4,
        "failures": 1,
        "kept_groups": 2,
        "mean_reward": 0.75,
        "stderr": pytest.approx(0.0),
        "stderr_over": "groups",
        "episodes_per_s": 2.0,
        "deploy_s": 1.0,
        "tools_s": 0.5,
        "verifier_s": 2.0,
    }
    assert done.warnings() == ["1 of 4 episodes failed (1x env); the first: env: env 'grid' died"]


def test_samples_of_a_task_are_no_independent_draws() -> None:
    one = rehearsal([sample(0.5), sample(1.0)]).summary()
    assert (one["mean_reward"], one["stderr"], one["stderr_over"]) == (0.75, 0.25, "samples")
    same = rehearsal([sample(0.0)] * 50, [sample(1.0)] * 50).summary()
    assert (same["mean_reward"], same["stderr"], same["stderr_over"]) == (0.5, 0.5, "groups")
    uneven = rehearsal([sample(0.0)], [sample(1.0)] * 3).summary()
    assert uneven["mean_reward"] == 0.5
    alone = rehearsal([sample(0.5)]).summary()
    assert (alone["stderr"], alone["stderr_over"]) == (None, None)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=10), st.integers(1, 8))
def test_more_samples_that_are_alike_make_nothing_surer(means: list[float], samples: int) -> None:
    one = rehearsal(*([sample(mean)] for mean in means)).summary()
    many = rehearsal(*([sample(mean)] * samples for mean in means)).summary()
    for key in ("mean_reward", "stderr"):
        assert many[key] == pytest.approx(one[key])


def test_a_small_split_and_what_the_server_noticed() -> None:
    done = replace(rehearsal([sample(0.5), sample(1.0)]), asked=4, remarks=("no rows",))
    assert done.notes() == ["4 groups were asked for; the split 'eval' holds 1 task, all were played"]
    assert done.warnings() == ["no rows"]
    assert replace(done, asked=1).notes() == []


def test_a_run_whose_rewards_never_vary_is_a_warning_and_a_group_is_a_note() -> None:
    assert "all 2 rewards of the run are 0.2" in rehearsal([sample(0.2)], [sample(0.2)]).warnings()[0]
    varied = rehearsal([sample(0.2), sample(0.2)], [sample(0.4), sample(0.4)])
    assert varied.warnings() == []
    assert varied.notes() == ["the rewards of 2 of 2 groups do not vary; a policy without chance does that"]
    assert rehearsal([sample(0.2), sample(0.3)]).notes() == []


def test_what_the_adapter_noticed_is_a_warning_once() -> None:
    text = "calls came back unparsed: add --sglang-tool-call-parser"
    done = rehearsal([sample(0.2, warnings=(text,)), sample(0.3, warnings=(text,))])
    assert done.warnings() == [f"{text} (2 episodes)"]


def test_nothing_played_is_a_warning() -> None:
    done = rehearsal()
    assert "nothing was played" in done.warnings()[0]
    assert done.summary()["mean_reward"] is None


def test_json_form() -> None:
    failure = Failure("deploy", "no room", retryable=True)
    shown = json.loads(json.dumps(rehearsal([sample(0.5), sample(None, failure=failure)]).as_json(), allow_nan=False))
    assert set(shown) == {"trainer", "bundle", "split", "groups", "summary", "warnings", "notes"}
    scored, failed = shown["groups"][0]["samples"]
    assert scored == {
        "reward": 0.5,
        "scores": {"grade": 0.5},
        "tool_calls": 2,
        "invalid_calls": 1,
        "failure": None,
        "turns": 3,
        "trained_tokens": 40,
        "seconds": 0.5,
    }
    assert failed["reward"] is None
    assert failed["failure"] == {"kind": "deploy", "message": "no room", "retryable": True}


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=50))
def test_mean_and_stderr_against_the_textbook(values: list[float]) -> None:
    mean, stderr = mean_and_stderr(values)
    n = len(values)
    expected = sum(values) / n
    assert mean is not None
    assert stderr is not None
    assert mean == pytest.approx(expected, abs=1e-6)
    deviation = math.sqrt(sum((value - expected) ** 2 for value in values) / (n - 1))
    assert stderr == pytest.approx(deviation / math.sqrt(n), abs=1e-6)


def test_mean_of_few() -> None:
    assert mean_and_stderr([]) == (None, None)
    assert mean_and_stderr([0.5]) == (0.5, None)
