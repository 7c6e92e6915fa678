"""The combiners of this distribution."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agent_env.errors import RewardError
from agent_env.plugin.reward import EpisodeFacts, RewardCombiner
from agent_env.plugin.reward_spec import step_problems
from agent_env.rewards.gated.shape import Shape

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agent_env.rewards.gated.condition import Condition
    from agent_env.rewards.gated.value import Value


@dataclass(frozen=True)
class Gate(RewardCombiner):
    """``then`` when all conditions hold, else ``otherwise``; penalties and bounds apply to either.

    Every step that is named needs a score, whichever way the gate goes.
    """

    conditions: tuple[Condition, ...]
    then: Value
    otherwise: Value
    shape: Shape = field(default_factory=Shape)

    def combine(self, scores: Mapping[str, float], episode: EpisodeFacts) -> float:
        held = [condition.holds(scores, episode) for condition in self.conditions]
        values = (self.otherwise.of(scores), self.then.of(scores))
        return _shaped("gate", self.shape, values[all(held)], episode)

    def check(self, steps: Sequence[str]) -> Sequence[str]:
        conditions = [condition.step for condition in self.conditions if condition.step is not None]
        wanted = [*conditions, *self.then.steps, *self.otherwise.steps]
        return [f"gate: {problem}" for problem in step_problems(wanted, steps)]


@dataclass(frozen=True)
class Shaped(RewardCombiner):
    """A value with penalties and bounds: ``penalized`` and ``clip``."""

    name: str
    value: Value
    shape: Shape

    def combine(self, scores: Mapping[str, float], episode: EpisodeFacts) -> float:
        return _shaped(self.name, self.shape, self.value.of(scores), episode)

    def check(self, steps: Sequence[str]) -> Sequence[str]:
        return [f"{self.name}: {problem}" for problem in step_problems(self.value.steps, steps)]


def _shaped(name: str, shape: Shape, value: float, episode: EpisodeFacts) -> float:
    try:
        return shape.apply(value, episode)
    except RewardError as error:
        raise RewardError(f"{name}: {error}") from error
