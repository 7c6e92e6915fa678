"""Two runs against each other, task by task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent_env.errors import UsageError
from agent_env.evaluation.stats import bootstrap_interval, mean_and_stderr, t_interval
from agent_env.evaluation.store import read_run
from agent_env.evaluation.summary import by_task

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from agent_env.evaluation.settings import EvalSettings
    from agent_env.evaluation.stats import Interval
    from agent_env.evaluation.summary import TaskFigures

FEW_PAIRS = 10
_MEANT = frozenset({"model", "base_url", "pass_at", "tasks_digest"})
"""Settings in which the runs of a comparison are expected to differ, or of which there are better words."""


@dataclass(frozen=True, slots=True)
class Pair:
    """The mean rewards of one task in both runs."""

    task: str
    a: float
    b: float

    @property
    def difference(self) -> float:
        """Positive where the second run is better."""
        return self.b - self.a


@dataclass(frozen=True, slots=True)
class Comparison:
    """Run B against run A; differences are B - A.

    Attributes:
        pairs: tasks with a scored episode in both runs, the biggest change first.
        mean: mean difference over the pairs.
        stderr: its standard error.
        bootstrap: its interval by a bootstrap over pairs.
        student: its interval by Student's t.
        level: confidence of the intervals.
        unpaired: tasks with a score in one run only, by run.
        different: settings that differ, by name: in A and in B.
        warnings: why the comparison should not be trusted.
    """

    pairs: Sequence[Pair]
    mean: float | None
    stderr: float | None
    bootstrap: Interval | None
    student: Interval | None
    level: float
    unpaired: tuple[int, int]
    different: dict[str, tuple[Any, Any]]
    warnings: Sequence[str]

    @property
    def verdict(self) -> str:
        """What the intervals say: ``B is better``, ``B is worse``, ``no clear difference``; both must agree."""
        intervals = [one for one in (self.bootstrap, self.student) if one is not None]
        if intervals and all(one.low > 0 for one in intervals):
            return "B is better"
        if intervals and all(one.high < 0 for one in intervals):
            return "B is worse"
        return "no clear difference"

    def as_json(self) -> dict[str, Any]:
        """The object that ``agentenv compare --json`` prints."""
        return {
            "pairs": len(self.pairs),
            "mean_a": mean_and_stderr([pair.a for pair in self.pairs])[0],
            "mean_b": mean_and_stderr([pair.b for pair in self.pairs])[0],
            "difference": self.mean,
            "stderr": self.stderr,
            "level": self.level,
            "bootstrap": None if self.bootstrap is None else [self.bootstrap.low, self.bootstrap.high],
            "t": None if self.student is None else [self.student.low, self.student.high],
            "better": sum(1 for pair in self.pairs if pair.difference > 0),
            "worse": sum(1 for pair in self.pairs if pair.difference < 0),
            "equal": sum(1 for pair in self.pairs if pair.difference == 0),
            "only_in_a": self.unpaired[0],
            "only_in_b": self.unpaired[1],
            "different_settings": {key: list(pair) for key, pair in self.different.items()},
            "verdict": self.verdict,
            "warnings": list(self.warnings),
            "tasks": [
                {"task": pair.task, "a": pair.a, "b": pair.b, "difference": pair.difference} for pair in self.pairs
            ],
        }


def compare_runs(folder_a: Path, folder_b: Path, *, level: float = 0.95, seed: int = 0) -> Comparison:
    """Compare two runs on disk.

    Raises:
        UsageError: a folder holds no run, or no task has a score in both.
    """
    settings_a, records_a = read_run(folder_a)
    settings_b, records_b = read_run(folder_b)
    tasks_a = by_task(records_a, settings_a.pass_at)
    tasks_b = by_task(records_b, settings_b.pass_at)
    comparison = compare(tasks_a, tasks_b, settings_a, settings_b, level=level, seed=seed)
    if not comparison.pairs:
        raise UsageError(f"no task has a score in both {folder_a} and {folder_b}")
    return comparison


def compare(
    tasks_a: Sequence[TaskFigures],
    tasks_b: Sequence[TaskFigures],
    settings_a: EvalSettings,
    settings_b: EvalSettings,
    *,
    level: float = 0.95,
    seed: int = 0,
) -> Comparison:
    """Pair the tasks of two runs by name."""
    means_a = {one.task: one.mean for one in tasks_a if one.mean is not None}
    means_b = {one.task: one.mean for one in tasks_b if one.mean is not None}
    common = [task for task in means_a if task in means_b]
    pairs = [Pair(task, means_a[task], means_b[task]) for task in common]
    # In the order of run A: the bootstrap must not depend on how ties are sorted.
    differences = [pair.difference for pair in pairs]
    mean, stderr = mean_and_stderr(differences)
    different = settings_a.differences(settings_b)
    unpaired = (len(means_a) - len(common), len(means_b) - len(common))
    failed = (sum(one.failed for one in tasks_a), sum(one.failed for one in tasks_b))
    return Comparison(
        pairs=sorted(pairs, key=lambda pair: -abs(pair.difference)),
        mean=mean,
        stderr=stderr,
        bootstrap=bootstrap_interval(differences, level, seed=seed),
        student=t_interval(differences, level),
        level=level,
        unpaired=unpaired,
        different=different,
        warnings=_warnings(differences, unpaired, failed, different),
    )


def _warnings(
    differences: Sequence[float],
    unpaired: tuple[int, int],
    failed: tuple[int, int],
    different: dict[str, tuple[Any, Any]],
) -> list[str]:
    found = [f"the runs differ in {key}: {a!r} and {b!r}" for key, (a, b) in different.items() if key not in _MEANT]
    if "tasks_digest" in different and "tasks" not in different:
        found.append("names, prompts or tools of the tasks differ between the runs: are they the same tasks?")
    pairs = len(differences)
    if pairs < FEW_PAIRS:
        found.append(f"only {pairs} tasks are in both runs: the intervals say little below {FEW_PAIRS}")
    if pairs > 1 and differences[0] and min(differences) == max(differences):
        found.append("every task changed by the same amount: the intervals have no width and say nothing")
    if any(unpaired):
        found.append(f"tasks with a score in one run only are left out: {unpaired[0]} of A, {unpaired[1]} of B")
    if any(failed):
        found.append(f"failed episodes are in no score: {failed[0]} of A, {failed[1]} of B")
    return found
