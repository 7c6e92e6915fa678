"""What a rehearsal found: its summary, its warnings and its JSON form."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent_env.errors import Problem
    from agent_env.plugin.trainer import RehearsalGroup, RehearsalSample


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """A finished rehearsal.

    Attributes:
        trainer: name of the trainer adapter.
        bundle: name of the bundle.
        split: the split that was played.
        groups: every group with its samples, in the order of the tasks.
        seconds: wall time of the play, without the server's start.
        left_out: tasks that the server cannot play, and why.
        asked: groups that were asked for; the split may hold fewer.
        remarks: what the server noticed and would waste a training run.
    """

    trainer: str
    bundle: str
    split: str
    groups: Sequence[RehearsalGroup]
    seconds: float
    left_out: Sequence[Problem] = ()
    asked: int | None = None
    remarks: Sequence[str] = ()

    @property
    def samples(self) -> list[RehearsalSample]:
        """All samples of all groups."""
        return [sample for group in self.groups for sample in group.samples]

    def summary(self) -> dict[str, Any]:
        """Figures over all samples; times are seconds summed over the episodes, rewards count scored episodes only.

        The samples of one task are no independent draws of the bundle, so with several groups ``mean_reward`` is the
        mean over the groups' means and ``stderr`` its standard error across groups; with one group both are over its
        samples. ``stderr_over`` says which: ``groups``, ``samples`` or `None` where there is no standard error.
        """
        samples = self.samples
        by_group = [_rewards(group.samples) for group in self.groups]
        scored = [rewards for rewards in by_group if rewards]
        several = len(scored) > 1
        values = (
            [math.fsum(rewards) / len(rewards) for rewards in scored]
            if several
            else [reward for rewards in scored for reward in rewards]
        )
        mean, stderr = mean_and_stderr(values)
        return {
            "episodes": len(samples),
            "failures": sum(1 for sample in samples if sample.failure is not None),
            "kept_groups": sum(1 for group in self.groups if group.kept),
            "mean_reward": mean,
            "stderr": stderr,
            "stderr_over": None if stderr is None else "groups" if several else "samples",
            "episodes_per_s": len(samples) / self.seconds if self.seconds > 0 else 0.0,
            **{key: sum(s.timings.get(key, 0.0) for s in samples) for key in ("deploy_s", "tools_s", "verifier_s")},
        }

    def warnings(self) -> list[str]:
        """What would waste a training run, in plain words; empty when all is well."""
        samples = self.samples
        found: list[str] = []
        if not samples:
            found.append(f"nothing was played: the split {self.split!r} holds no task")
        failures = [sample.failure for sample in samples if sample.failure is not None]
        if failures:
            kinds = ", ".join(f"{count}x {kind}" for kind, count in Counter(f.kind for f in failures).most_common())
            found.append(f"{len(failures)} of {len(samples)} episodes failed ({kinds}); the first: {failures[0]}")
        rewards = [sample.reward for sample in samples if sample.reward is not None]
        if len(rewards) > 1 and len(set(rewards)) == 1:
            found.append(
                f"all {len(rewards)} rewards of the run are {rewards[0]:g}: a trainer learns nothing from a constant"
            )
        found.extend(self.remarks)
        for text, count in Counter(text for sample in samples for text in sample.warnings).most_common():
            found.append(f"{text} ({count} episodes)" if count > 1 else text)
        return found

    def notes(self) -> list[str]:
        """What is worth knowing and no reason to stop."""
        constant = 0
        for group in self.groups:
            rewards = [sample.reward for sample in group.samples if sample.reward is not None]
            constant += len(rewards) > 1 and len(set(rewards)) == 1
        found: list[str] = []
        if self.asked is not None and self.asked > len(self.groups) > 0:
            tasks = counted(len(self.groups), "task")
            found.append(f"{self.asked} groups were asked for; the split {self.split!r} holds {tasks}, all were played")
        if constant:
            shown = f"{constant} of {counted(len(self.groups), 'group')}"
            found.append(f"the rewards of {shown} do not vary; a policy without chance does that")
        return found

    def as_json(self) -> dict[str, Any]:
        """The object that ``agentenv rehearse --json`` prints."""
        return {
            "trainer": self.trainer,
            "bundle": self.bundle,
            "split": self.split,
            "groups": [
                {"task_id": group.task_id, "kept": group.kept, "samples": [_sample_json(s) for s in group.samples]}
                for group in self.groups
            ],
            "summary": self.summary(),
            "warnings": self.warnings(),
            "notes": self.notes(),
        }


def _sample_json(sample: RehearsalSample) -> dict[str, Any]:
    failure = sample.failure
    return {
        "reward": sample.reward,
        "scores": dict(sample.scores),
        "tool_calls": sample.tool_calls,
        "invalid_calls": sample.invalid_calls,
        "failure": None
        if failure is None
        else {"kind": failure.kind, "message": failure.message, "retryable": failure.retryable},
        "turns": sample.turns,
        "trained_tokens": sample.trained_tokens,
        "seconds": sample.seconds,
    }


def _rewards(samples: Sequence[RehearsalSample]) -> list[float]:
    return [sample.reward for sample in samples if sample.reward is not None]


def counted(number: int, word: str) -> str:
    """``1 task``, ``2 tasks``."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def mean_and_stderr(values: Sequence[float]) -> tuple[float | None, float | None]:
    """Mean and its standard error (sample deviation over the root of n); `None` where it does not exist."""
    if not values:
        return None, None
    mean = math.fsum(values) / len(values)
    if len(values) == 1:
        return mean, None
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return mean, math.sqrt(variance / len(values))
