"""``weighted:a=0.7,b=0.3``: the weighted mean of some scores.

Weights are divided by their sum, so ``a=7,b=3`` means the same. Steps without a weight do not count.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from agent_env.errors import RewardError
from agent_env.plugin.reward import EpisodeFacts, RewardCombiner
from agent_env.plugin.reward_spec import finite, number, score_of, split_at, split_parts, step_id, step_problems

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_FORM = "write weighted:a=0.7,b=0.3"


class Weighted(RewardCombiner):
    """The weighted mean.

    Args:
        weights: weight by step id, none negative, at least one positive.

    Raises:
        RewardError: the weights cannot make a mean.
    """

    def __init__(self, weights: Mapping[str, float]) -> None:
        for step, weight in weights.items():
            if not math.isfinite(weight):
                raise RewardError(f"weighted: the weight of {step!r} must be a finite number, not {weight!r}")
            if weight < 0:
                raise RewardError(f"weighted: the weight of {step!r} is negative ({weight!r})")
        largest = max(weights.values(), default=0.0)
        if largest == 0:
            raise RewardError(f"weighted: the weights sum to 0, so no score counts; {_FORM}")
        shares = {step: weight / largest for step, weight in weights.items()}  # their sum cannot overflow
        total = math.fsum(shares.values())
        self.weights = {step: share / total for step, share in shares.items()}

    def combine(self, scores: Mapping[str, float], episode: EpisodeFacts) -> float:
        del episode
        parts = [weight * score_of(scores, step) for step, weight in self.weights.items()]
        try:
            return finite(math.fsum(parts), "weighted")
        except OverflowError as error:
            raise RewardError(f"weighted: the scores are too large: {error}") from error

    def check(self, steps: Sequence[str]) -> Sequence[str]:
        return [f"weighted: {problem}" for problem in step_problems(self.weights, steps)]


def build(arguments: str) -> Weighted:
    """Read ``a=0.7,b=0.3``."""
    weights: dict[str, float] = {}
    try:
        for part in split_parts(arguments):
            cut = split_at(part, ["="])
            if cut is None:
                raise RewardError(f"{part!r} has no weight")
            step = step_id(cut[0])
            if step in weights:
                raise RewardError(f"{step!r} has two weights")
            weights[step] = number(cut[2], f"the weight of {step!r}")
    except RewardError as error:
        raise RewardError(f"weighted: {error}; {_FORM}") from error
    if not weights:
        raise RewardError(f"weighted: it names no step; {_FORM}")
    return Weighted(weights)
