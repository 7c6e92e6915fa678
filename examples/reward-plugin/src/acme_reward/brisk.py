"""``brisk:<step>``: a step's score, halved for every ten tool calls."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from agent_env.plugin.reward import EpisodeFacts, RewardCombiner
from agent_env.plugin.reward_spec import score_of, step_id, step_problems

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Brisk(RewardCombiner):
    def __init__(self, step: str) -> None:
        self.step = step

    def combine(self, scores: Mapping[str, float], episode: EpisodeFacts) -> float:
        return score_of(scores, self.step) * math.pow(0.5, episode.tool_calls / 10)

    def check(self, steps: Sequence[str]) -> Sequence[str]:
        return step_problems([self.step], steps)


def build(arguments: str) -> Brisk:
    return Brisk(step_id(arguments))
