"""``__NAME__:<step>``: a step's score, halved for every ten tool calls."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from agent_env.plugin.reward import EpisodeFacts, RewardCombiner
from agent_env.plugin.reward_spec import score_of, step_id, step_problems

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class __CLASS__(RewardCombiner):
    """One object serves every episode: it keeps no state."""

    def __init__(self, step: str) -> None:
        self.step = step

    def combine(self, scores: Mapping[str, float], episode: EpisodeFacts) -> float:
        """The reward; `score_of` raises when the score is missing, which fails the episode instead of making a 0."""
        return score_of(scores, self.step) * math.pow(0.5, episode.tool_calls / 10)

    def check(self, steps: Sequence[str]) -> Sequence[str]:
        """A line for each reason why a task with these scoring steps cannot be rewarded."""
        return step_problems([self.step], steps)


def build(arguments: str) -> __CLASS__:
    """Read what stands behind the colon; a `RewardError` says what is wrong with it."""
    return __CLASS__(step_id(arguments))
