"""What is done to a value at the end: penalties are subtracted, then bounds are kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from agent_env.errors import RewardError
from agent_env.plugin.reward_spec import finite, number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent_env.plugin.reward import EpisodeFacts

_PENALTIES: Final = {
    "turn": "turns",
    "call": "tool_calls",
    "invalid_call": "invalid_calls",
    "second": "seconds",
}

PENALTY_OPTIONS: Final = (
    *(f"per_{word}" for word in _PENALTIES),
    *(f"free_{word}s" for word in _PENALTIES),
    "truncated",
)
BOUND_OPTIONS: Final = ("min", "max")


@dataclass(frozen=True, slots=True)
class Penalty:
    """``rate`` for each one of ``fact`` beyond ``free``."""

    fact: str
    rate: float
    free: float = 0.0


@dataclass(frozen=True, slots=True)
class Shape:
    """Penalties and bounds."""

    penalties: tuple[Penalty, ...] = ()
    low: float | None = None
    high: float | None = None

    def apply(self, value: float, episode: EpisodeFacts) -> float:
        """The value after penalties and bounds."""
        for penalty in self.penalties:
            value -= penalty.rate * max(0.0, float(getattr(episode, penalty.fact)) - penalty.free)
        if self.low is not None:
            value = max(self.low, value)
        if self.high is not None:
            value = min(self.high, value)
        return finite(value, "the combiner")


def read_shape(options: Mapping[str, str]) -> Shape:
    """Read the options; those that are no penalty or bound are left to others."""
    penalties: list[Penalty] = []
    for word, fact in _PENALTIES.items():
        rate, free = options.get(f"per_{word}"), options.get(f"free_{word}s")
        if rate is not None:
            penalties.append(Penalty(fact, _positive(f"per_{word}", rate), _positive(f"free_{word}s", free or "0")))
        elif free is not None:
            raise RewardError(f"free_{word}s means nothing without per_{word}")
    if "truncated" in options:
        penalties.append(Penalty("truncated", _positive("truncated", options["truncated"])))
    low, high = (number(options[name], name) if name in options else None for name in BOUND_OPTIONS)
    if low is not None and high is not None and low >= high:
        raise RewardError(f"min={low:g} must be less than max={high:g}")
    return Shape(tuple(penalties), low, high)


def _positive(name: str, text: str) -> float:
    value = number(text, name)
    if value < 0:
        raise RewardError(f"{name} must not be negative, it is subtracted; it is {text}")
    return value
