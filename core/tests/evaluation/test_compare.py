"""Two runs against each other."""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from agent_env.errors import Failure, UsageError
from agent_env.evaluation.compare import compare, compare_runs
from agent_env.evaluation.record import EpisodeRecord
from agent_env.evaluation.stats import pass_at_k, t_interval
from agent_env.evaluation.store import RunStore
from agent_env.evaluation.summary import Prices, by_task, summarize
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from pathlib import Path

    from agent_env.evaluation.settings import EvalSettings

REWARD = st.one_of(st.none(), st.sampled_from([0.0, 0.5, 1.0]))
RUN = st.dictionaries(st.sampled_from("abcdefgh"), st.lists(REWARD, min_size=1, max_size=4))


def records(run: dict[str, list[float | None]]) -> list[EpisodeRecord]:
    return [
        EpisodeRecord(
            task,
            ord(task),
            repeat,
            reward,
            failure=Failure("env", "it died") if reward is None else None,
            tokens={"prompt": 10, "completion": 1},
        )
        for task, rewards in run.items()
        for repeat, reward in enumerate(rewards)
    ]


def means(run: dict[str, list[float | None]]) -> dict[str, float]:
    scored = {task: [one for one in rewards if one is not None] for task, rewards in run.items()}
    return {task: statistics.fmean(rewards) for task, rewards in scored.items() if rewards}


@pytest.fixture(scope="module")
def base() -> EvalSettings:
    from agent_env.evaluation.settings import EvalSettings

    return EvalSettings("rooms", "train", 3, "0123", "http://model.example/v1", "m")


@given(RUN, RUN)
def test_pairs_are_those_of_a_naive_join(
    base: EvalSettings, a: dict[str, list[float | None]], b: dict[str, list[float | None]]
) -> None:
    done = compare(by_task(records(a), 1.0), by_task(records(b), 1.0), base, base)
    mean_a, mean_b = means(a), means(b)
    both = sorted(mean_a.keys() & mean_b.keys())
    assert {pair.task: (pair.a, pair.b) for pair in done.pairs} == {task: (mean_a[task], mean_b[task]) for task in both}
    changes = [abs(pair.difference) for pair in done.pairs]
    assert changes == sorted(changes, reverse=True)
    differences = [mean_b[task] - mean_a[task] for task in both]
    assert done.mean == (pytest.approx(statistics.fmean(differences)) if both else None)
    assert done.student == t_interval(differences)
    assert done.unpaired == (len(mean_a) - len(both), len(mean_b) - len(both))
    back = compare(by_task(records(b), 1.0), by_task(records(a), 1.0), base, base)
    assert back.mean == (pytest.approx(-(done.mean or 0)) if both else None)


@given(RUN)
def test_the_summary_is_that_of_a_naive_count(base: EvalSettings, run: dict[str, list[float | None]]) -> None:
    summary = summarize(replace(base, k=4), records(run))
    mean = means(run)
    assert summary["mean_reward"] == (pytest.approx(statistics.fmean(mean.values())) if mean else None)
    assert summary["failed"] == sum(rewards.count(None) for rewards in run.values())
    assert summary["episodes"] == sum(map(len, run.values()))
    assert summary["tokens"]["total"] == 11 * summary["episodes"]
    for k in (1, 2, 4):
        shares = [
            share
            for rewards in run.values()
            if (share := pass_at_k(len(rewards) - rewards.count(None), rewards.count(1.0), k)) is not None
        ]
        expected = statistics.fmean(shares) if shares else None
        assert summary["pass"][str(k)]["mean"] == (None if expected is None else pytest.approx(expected))
        assert summary["pass"][str(k)]["tasks"] == len(shares)


def test_warnings(base: EvalSettings) -> None:
    a = by_task(records({"a": [1.0], "b": [None], "c": [0.0]}), 1.0)
    b = by_task(records({"a": [1.0], "b": [1.0], "c": [0.5]}), 1.0)
    done = compare(a, b, base, replace(base, model="n", max_turns=3, pass_at=0.5))
    words = "\n".join(done.warnings)
    assert "the runs differ in max_turns: 16 and 3" in words
    assert "model" not in words
    assert "only 2 tasks are in both runs" in words
    assert "left out: 0 of A, 1 of B" in words
    assert "failed episodes are in no score: 1 of A, 0 of B" in words
    many = by_task(records({chr(97 + n): [n / 20] for n in range(20)}), 1.0)
    assert list(compare(many, many, base, base).warnings) == []


@pytest.mark.parametrize(
    ("shift", "verdict"), [(0.3, "B is better"), (-0.3, "B is worse"), (0.0, "no clear difference")]
)
def test_the_verdict_is_that_of_the_intervals(base: EvalSettings, shift: float, verdict: str) -> None:
    a = by_task(records({chr(97 + n): [n / 40] for n in range(20)}), 1.0)
    b = by_task(records({chr(97 + n): [n / 40 + shift + (-1) ** n / 50] for n in range(20)}), 1.0)
    done = compare(a, b, base, base)
    assert (done.verdict, list(done.warnings)) == (verdict, [])
    assert done.as_json()["verdict"] == verdict


def test_odd_comparisons_are_said(base: EvalSettings) -> None:
    tasks: dict[str, list[float | None]] = {chr(97 + n): [0.25] for n in range(20)}
    same = compare(by_task(records(tasks), 1.0), by_task(records({key: [0.5] for key in tasks}), 1.0), base, base)
    assert "the intervals have no width" in "\n".join(same.warnings)
    other = by_task(records(tasks), 1.0)
    words = compare(other, other, base, replace(base, tasks_digest="9")).warnings
    assert [text.endswith("are they the same tasks?") for text in words] == [True]
    one = compare(by_task(records({"a": [1.0]}), 1.0), by_task(records({"a": [0.0]}), 1.0), base, base)
    assert (one.bootstrap, one.student, one.verdict) == (None, None, "no clear difference")


def test_weights_that_add_up_to_1_solve(base: EvalSettings) -> None:
    total = 0.7 + 0.2 + 0.1
    assert total < 1
    summary = summarize(base, records({"a": [total], "b": [1 - 1e-6]}))
    assert [one["solved"] for one in summary["tasks"]] == [1, 0]


def test_the_cost_holds_replaced_episodes(base: EvalSettings) -> None:
    prices = Prices(1e6, 2e6)
    alone = summarize(base, records({"a": [1.0]}), prices=prices)
    both = summarize(base, records({"a": [1.0]}), prices=prices, wasted={"prompt": 5, "completion": 3})
    assert both["cost"] - alone["cost"] == 11
    assert (both["tokens"]["total"], both["tokens"]["replaced_episodes"]) == (alone["tokens"]["total"], 8)


def test_the_same_runs_give_the_same_interval(base: EvalSettings, tmp_path: Path) -> None:
    for name, shift in (("x", 0.0), ("y", 0.25)):
        with RunStore(tmp_path / name, base) as store:
            for number in range(12):
                store.append(EpisodeRecord(f"t{number}", number, 0, number % 3 / 4 + shift))
    first, second = (compare_runs(tmp_path / "x", tmp_path / "y").as_json() for _ in range(2))
    assert first == second
    assert first["difference"] == pytest.approx(0.25)
    assert first["bootstrap"] == [pytest.approx(0.25), pytest.approx(0.25)]
    assert (first["better"], first["worse"], first["equal"]) == (12, 0, 0)


def test_nothing_in_common_is_an_error(base: EvalSettings, tmp_path: Path) -> None:
    for name in ("x", "y"):
        with RunStore(tmp_path / name, base) as store:
            store.append(EpisodeRecord(name, 0, 0, 1.0))
    with pytest.raises(UsageError, match="no task has a score in both"):
        compare_runs(tmp_path / "x", tmp_path / "y")
