"""``mean``, ``min``, ``max`` and ``product``: of all scores, or of some steps (``mean:grade,style``)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from agent_env.errors import RewardError
from agent_env.plugin.reward import EpisodeFacts, RewardCombiner
from agent_env.plugin.reward_spec import finite, score_of, split_parts, step_id, step_problems

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


class Fold(RewardCombiner):
    """One function of several scores.

    Args:
        name: the combiner's name, for messages.
        function: from at least one score to the reward.
        steps: ids of the steps that count; empty = every scoring step.
    """

    def __init__(self, name: str, function: Callable[[Sequence[float]], float], steps: Sequence[str] = ()) -> None:
        self.name = name
        self.steps = tuple(steps)
        self._function = function

    def combine(self, scores: Mapping[str, float], episode: EpisodeFacts) -> float:
        values = [score_of(scores, step) for step in self.steps or scores]
        if not values:
            raise RewardError(f"{self.name}: the task {episode.task_id!r} has no score")
        try:
            return finite(self._function(values), self.name)
        except OverflowError as error:
            raise RewardError(f"{self.name}: the scores are too large: {error}") from error

    def check(self, steps: Sequence[str]) -> Sequence[str]:
        if not steps:
            return [f"{self.name}: the task has no scoring step"]
        return [f"{self.name}: {problem}" for problem in step_problems(self.steps, steps)]


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean, exactly summed."""
    return math.fsum(values) / len(values)


def _build(name: str, function: Callable[[Sequence[float]], float], arguments: str) -> Fold:
    try:
        steps = [step_id(part) for part in split_parts(arguments)]
    except RewardError as error:
        raise RewardError(f"{name}: {error}; write {name} for all scores or {name}:a,b for some") from error
    twice = sorted({step for step in steps if steps.count(step) > 1})
    if twice:
        raise RewardError(f"{name}: {', '.join(map(repr, twice))} stands there twice")
    return Fold(name, function, steps)


def build_mean(arguments: str) -> Fold:
    """``mean`` or ``mean:a,b``."""
    return _build("mean", mean, arguments)


def build_min(arguments: str) -> Fold:
    """``min`` or ``min:a,b``."""
    return _build("min", min, arguments)


def build_max(arguments: str) -> Fold:
    """``max`` or ``max:a,b``."""
    return _build("max", max, arguments)


def build_product(arguments: str) -> Fold:
    """``product`` or ``product:a,b``."""
    return _build("product", math.prod, arguments)
