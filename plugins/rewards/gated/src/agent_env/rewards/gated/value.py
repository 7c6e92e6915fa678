"""Values: a number, a step's score, or a sum of weighted scores (``0.7*grade+0.3*style+0.1``)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_env.errors import RewardError
from agent_env.plugin.reward_spec import finite, is_number, number, score_of, split_at, split_parts, step_id

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Value:
    """A linear sum.

    Attributes:
        constant: what is added without a step.
        factors: factor by step id.
    """

    constant: float
    factors: tuple[tuple[str, float], ...] = ()

    @property
    def steps(self) -> tuple[str, ...]:
        """Ids of the steps whose scores it needs."""
        return tuple(step for step, _ in self.factors)

    def of(self, scores: Mapping[str, float]) -> float:
        """Its value with these scores.

        Raises:
            RewardError: a score is missing, or the sum is not finite.
        """
        terms = [factor * score_of(scores, step) for step, factor in self.factors]
        try:
            return finite(math.fsum([self.constant, *terms]), "the sum")
        except (OverflowError, ValueError) as error:
            raise RewardError(f"the scores are too large to add: {error}") from error


def read_value(text: str) -> Value:
    """Read a value. A part that looks like a number is one; a step with such an id stands in double quotes."""
    constants: list[float] = []
    factors: dict[str, float] = {}
    for term in _terms(text):
        cut = split_at(term, ["*"])
        if cut is None and is_number(term):
            constants.append(number(term, "a number"))
            continue
        factor, step = (1.0, term) if cut is None else (number(cut[0], "the factor before '*'"), cut[2])
        name = step_id(step)
        if name in factors:
            raise RewardError(f"{name!r} stands twice in {text!r}")
        factors[name] = factor
    try:
        constant = math.fsum(constants)
    except OverflowError as error:
        raise RewardError(f"the numbers of {text!r} are too large to add") from error
    return Value(constant, tuple(factors.items()))


def _terms(text: str) -> list[str]:
    if is_number(text):  # +1 and 1e+3 hold a sign and are one number
        return [text.strip()]
    terms = split_parts(text, "+")
    if not terms:
        raise RewardError("a value is empty; it is a number, a step id or a sum such as 0.7*grade+0.3*style")
    return terms
