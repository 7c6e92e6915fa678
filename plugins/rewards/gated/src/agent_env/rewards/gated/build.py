"""From the text behind the colon of a spec to a combiner.

::

    gate:CONDITION[,CONDITION…],then=VALUE,else=VALUE[,PENALTY…][,min=NUMBER][,max=NUMBER]
    penalized:VALUE,PENALTY[,PENALTY…][,min=NUMBER][,max=NUMBER]
    clip:VALUE[,min=NUMBER][,max=NUMBER]          without bounds: 0 to 1

    CONDITION  grade>=0.5 (also > < <= == !=), or a fact of the episode: @invalid_calls==0
    VALUE      1, grade, or 0.7*grade+0.3*style
    PENALTY    per_turn=0.1 per_call=0.01 per_invalid_call=0.1 per_second=0.001, each with
               free_turns=2 free_calls=… free_invalid_calls=… free_seconds=…; truncated=0.5
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from agent_env.errors import RewardError
from agent_env.plugin.reward_spec import split_at, split_parts
from agent_env.rewards.gated.combiners import Gate, Shaped
from agent_env.rewards.gated.condition import Condition, read_condition
from agent_env.rewards.gated.shape import BOUND_OPTIONS, PENALTY_OPTIONS, Shape, read_shape
from agent_env.rewards.gated.value import Value, read_value

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

_GATE_OPTIONS: Final = ("then", "else", *PENALTY_OPTIONS, *BOUND_OPTIONS)


def gate(arguments: str) -> Gate:
    """``gate:format>=1,then=grade,else=0``."""
    with _named("gate", "gate:format>=1,then=grade,else=0"):
        parts = split_parts(arguments)
        conditions: list[Condition] = []
        options: list[str] = []
        for part in parts:
            condition = read_condition(part)
            if condition is None:
                options.append(part)
            else:
                conditions.append(condition)
        found = _options(options, _GATE_OPTIONS)
        if not conditions:
            raise RewardError("there is no condition")
        for needed in ("then", "else"):
            if needed not in found:
                raise RewardError(f"{needed}= is missing")
        then, otherwise = read_value(found["then"]), read_value(found["else"])
        if then == otherwise:
            raise RewardError("then and else are the same, so the conditions decide nothing")
        return Gate(tuple(conditions), then, otherwise, read_shape(found))


def penalized(arguments: str) -> Shaped:
    """``penalized:grade,per_call=0.01,free_calls=5,min=0``."""
    with _named("penalized", "penalized:grade,per_call=0.01,free_calls=5,min=0"):
        value, options = _value_and_options(arguments, (*PENALTY_OPTIONS, *BOUND_OPTIONS))
        shape = read_shape(options)
        if not shape.penalties:
            raise RewardError("there is no penalty")
        return Shaped("penalized", value, shape)


def clip(arguments: str) -> Shaped:
    """``clip:grade,min=0,max=1``."""
    with _named("clip", "clip:grade,min=0,max=1"):
        value, options = _value_and_options(arguments, BOUND_OPTIONS)
        return Shaped("clip", value, read_shape(options) if options else Shape((), 0.0, 1.0))


@contextmanager
def _named(name: str, example: str) -> Generator[None]:
    try:
        yield
    except RewardError as error:
        raise RewardError(f"{name}: {error}; write for example {example}") from error


def _value_and_options(arguments: str, known: Sequence[str]) -> tuple[Value, dict[str, str]]:
    parts = split_parts(arguments)
    if not parts or split_at(parts[0], ["="]) is not None:
        raise RewardError("the value to start from must come first")
    return read_value(parts[0]), _options(parts[1:], known)


def _options(parts: Sequence[str], known: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in parts:
        cut = split_at(part, ["="])
        if cut is None:
            raise RewardError(f"{part!r} is neither a condition nor an option; options: {', '.join(known)}")
        name, _, text = cut
        if name not in known:
            from difflib import get_close_matches

            guess = get_close_matches(name, known, n=1)
            hint = f"did you mean {guess[0]!r}?" if guess else f"options: {', '.join(known)}"
            raise RewardError(f"there is no option {name!r}; {hint}")
        if name in found:
            raise RewardError(f"{name}= stands there twice")
        found[name] = text
    return found
