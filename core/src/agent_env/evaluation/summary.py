"""The figures of a run: by task and over the split."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent_env.evaluation.stats import mean_and_stderr, pass_at_k

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from agent_env.evaluation.record import EpisodeRecord
    from agent_env.evaluation.settings import EvalSettings

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Prices:
    """What a million tokens costs, in whatever currency the prices are."""

    prompt: float
    completion: float

    def cost(self, tokens: Mapping[str, int]) -> float:
        """Cost of ``prompt`` and ``completion`` tokens."""
        return (tokens.get("prompt", 0) * self.prompt + tokens.get("completion", 0) * self.completion) / 1e6


@dataclass(frozen=True, slots=True)
class TaskFigures:
    """The episodes of one task; failed ones are counted and are in no score.

    Attributes:
        task: name of the task.
        index: its place in the split.
        rewards: of the scored episodes, in the order of their repeats.
        failed: episodes that failed.
        solved: scored episodes whose reward reaches ``pass_at``.
        tokens: prompt and completion tokens of all its episodes.
    """

    task: str
    index: int
    rewards: tuple[float, ...]
    failed: int
    solved: int
    tokens: int

    @property
    def mean(self) -> float | None:
        return mean_and_stderr(self.rewards)[0]

    @property
    def stderr(self) -> float | None:
        return mean_and_stderr(self.rewards)[1]

    def as_json(self) -> dict[str, Any]:
        """A JSON object."""
        return {
            "task": self.task,
            "index": self.index,
            "episodes": len(self.rewards) + self.failed,
            "scored": len(self.rewards),
            "failed": self.failed,
            "mean_reward": self.mean,
            "stderr": self.stderr,
            "solved": self.solved,
            "tokens": self.tokens,
        }


def solves(reward: float, pass_at: float) -> bool:
    """Whether an episode is solved. Weights that add up to 1 may give 0.9999999999999999: that is 1."""
    return reward >= pass_at - _ROUNDING


def by_task(records: Iterable[EpisodeRecord], pass_at: float) -> list[TaskFigures]:
    """Figures of every task, in the order of the split."""
    groups: dict[str, list[EpisodeRecord]] = {}
    for record in records:
        groups.setdefault(record.task, []).append(record)
    figures: list[TaskFigures] = []
    for task, group in groups.items():
        rewards = tuple(one.reward for one in sorted(group, key=lambda one: one.repeat) if one.reward is not None)
        figures.append(
            TaskFigures(
                task=task,
                index=group[0].index,
                rewards=rewards,
                failed=sum(1 for one in group if one.failure is not None),
                solved=sum(1 for reward in rewards if solves(reward, pass_at)),
                tokens=sum(one.spent for one in group),
            )
        )
    return sorted(figures, key=lambda one: (one.index, one.task))


def pass_figures(tasks: Sequence[TaskFigures], k: int) -> dict[str, dict[str, Any]]:
    """pass@1, 2, 4, … up to ``k``: the mean over the tasks with enough scored episodes, and how many those are."""
    sizes = sorted({*(2**power for power in range(k.bit_length()) if 2**power <= k), k})
    figures: dict[str, dict[str, Any]] = {}
    for size in sizes:
        values = [value for one in tasks if (value := pass_at_k(len(one.rewards), one.solved, size)) is not None]
        mean, stderr = mean_and_stderr(values)
        figures[str(size)] = {"mean": mean, "stderr": stderr, "tasks": len(values)}
    return figures


def summarize(
    settings: EvalSettings,
    records: Sequence[EpisodeRecord],
    *,
    prices: Prices | None = None,
    wasted: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """The summary of a run, a JSON object.

    ``mean_reward`` is the mean over tasks of the mean over a task's scored episodes, ``stderr`` its standard error
    across tasks. Failed episodes are in ``failures`` and in no score. ``wasted`` are tokens of episodes that were
    replaced by a later one: they are in no count of the episodes, and in the cost.
    """
    replaced = wasted or {}
    tasks = by_task(records, settings.pass_at)
    mean, stderr = mean_and_stderr([one.mean for one in tasks if one.mean is not None])
    failures = [record.failure for record in records if record.failure is not None]
    expected = settings.tasks * settings.k
    tokens = {key: sum(one.tokens.get(key, 0) for one in records) for key in ("prompt", "completion", "cached")}
    counted = all(not one.tokens.get("uncounted", 0) for one in records)
    seconds = [one.seconds.get("total", 0.0) for one in records]
    return {
        "bundle": settings.bundle,
        "split": settings.split,
        "model": settings.model,
        "k": settings.k,
        "expected_episodes": expected,
        "episodes": len(records),
        "complete": len(records) >= expected,
        "scored": len(records) - len(failures),
        "failed": len(failures),
        "mean_reward": mean,
        "stderr": stderr,
        "pass_at_reward": settings.pass_at,
        "pass": pass_figures(tasks, settings.k),
        "failures": dict(Counter(failure.kind for failure in failures).most_common()),
        "first_failure": str(failures[0]) if failures else None,
        "played_again": sum(one.attempts - 1 for one in records),
        "tool_calls": sum(one.tool_calls for one in records),
        "invalid_calls": sum(one.invalid_calls for one in records),
        "unknown_calls": sum(one.unknown_calls for one in records),
        "unparsed_calls": sum(one.unparsed_calls for one in records),
        "model_retries": sum(one.model_retries for one in records),
        "turns": sum(one.turns for one in records),
        "end_reasons": dict(Counter(one.end_reason for one in records).most_common()),
        "tokens": {
            **tokens,
            "total": tokens["prompt"] + tokens["completion"],
            "replaced_episodes": sum(replaced.values()),
        },
        "tokens_complete": counted,
        "cost": None if prices is None else prices.cost(tokens) + prices.cost(replaced),
        "prices": None if prices is None else {"in": prices.prompt, "out": prices.completion},
        "mean_episode_seconds": math.fsum(seconds) / len(seconds) if seconds else None,
        "warnings": _warnings(settings, records, counted=counted),
        "tasks": [one.as_json() for one in tasks],
    }


def _warnings(settings: EvalSettings, records: Sequence[EpisodeRecord], *, counted: bool) -> list[str]:
    found: list[str] = []
    expected = settings.tasks * settings.k
    if len(records) < expected:
        found.append(f"{len(records)} of {expected} episodes were played: the scores are of those")
    failures = [record.failure for record in records if record.failure is not None]
    if failures:
        kinds = ", ".join(f"{count}x {kind}" for kind, count in Counter(one.kind for one in failures).most_common())
        found.append(
            f"{len(failures)} of {len(records)} episodes failed ({kinds}) and are in no score; the first: {failures[0]}"
        )
    if not counted:
        found.append("the endpoint gave no usage for some replies: tokens and cost are too low")
    episodes = Counter(text for record in records for text in record.warnings)
    found += [f"{text} ({count} episodes)" if count > 1 else text for text, count in episodes.most_common(5)]
    return found
