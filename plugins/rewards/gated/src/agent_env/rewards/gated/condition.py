"""Conditions: ``format>=1`` on a step's score, ``@invalid_calls==0`` on a fact of the episode."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from agent_env.errors import RewardError
from agent_env.plugin.reward_spec import number, score_of, split_at, step_id

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from agent_env.plugin.reward import EpisodeFacts

FACTS: Final = ("turns", "tool_calls", "invalid_calls", "truncated", "seconds")

_COMPARE: Final[dict[str, Callable[[float, float], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison with a number.

    Attributes:
        step: the step whose score is compared, or `None`.
        fact: the field of `EpisodeFacts` that is compared, or `None`.
        sign: the comparison.
        bound: the number.
    """

    step: str | None
    fact: str | None
    sign: str
    bound: float

    def holds(self, scores: Mapping[str, float], episode: EpisodeFacts) -> bool:
        """Whether it is true of an episode.

        Raises:
            RewardError: the score is missing.
        """
        if self.step is not None:
            value = score_of(scores, self.step)
        else:
            value = float(getattr(episode, str(self.fact)))
        return _COMPARE[self.sign](value, self.bound)


def read_condition(part: str) -> Condition | None:
    """Read a condition; `None` when the part compares nothing (``then=grade``, ``grade``)."""
    cut = split_at(part, (*_COMPARE, "="))
    if cut is None or cut[1] == "=":
        return None
    left, sign, right = cut
    bound = number(right, f"the bound of {part!r}")
    if not left.startswith("@"):
        return Condition(step_id(left), None, sign, bound)
    fact = left[1:].strip()
    if fact not in FACTS:
        raise RewardError(f"there is no fact {left!r}; there are: {', '.join(f'@{name}' for name in FACTS)}")
    return Condition(None, fact, sign, bound)
