"""The contract of a reward combiner.

A combiner turns the scores of one episode into the one number that is trained on::

    class Shortest(RewardCombiner):
        def combine(self, scores, episode):
            return score_of(scores, "grade") / max(1, episode.tool_calls)

    def build(arguments: str) -> RewardCombiner:
        return Shortest()
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class EpisodeFacts:
    """What a combiner may know of an episode besides its scores.

    Attributes:
        task_id: the task's id.
        turns: agent turns that were opened (prompts given to the model).
        tool_calls: calls that an env executed.
        invalid_calls: calls whose arguments were not a JSON object, as the trainer's side counted them.
        truncated: the model was cut off (length, context or turn limit).
        seconds: wall time from reset to the last verifier.
    """

    task_id: str
    turns: int = 0
    tool_calls: int = 0
    invalid_calls: int = 0
    truncated: bool = False
    seconds: float = 0.0


class RewardCombiner(ABC):
    """Turns scores into a reward. One object serves every episode, also at the same time: keep no state in it."""

    @abstractmethod
    def combine(self, scores: Mapping[str, float], episode: EpisodeFacts) -> float:
        """The episode's reward.

        Args:
            scores: the score of every scoring step by its id, each in 0..1 unless a plugin step says otherwise.
            episode: facts of the episode.

        Returns:
            A finite number. NaN, infinity or anything else is the failure ``no_reward``, never a 0.

        Raises:
            RewardError: a score that is needed is missing. Any exception fails the episode with ``no_reward``.
        """

    def check(self, steps: Sequence[str]) -> Sequence[str]:
        """Problems of this combiner with a task whose scoring steps have these ids; asked before anything is served.

        Returns:
            One line for each problem, none when it fits. A task with problems is left out and named.
        """
        del steps
        return ()
