"""What most reward combiners need: reading the arguments of a spec, taking a score, checking step ids.

Arguments are parts between commas; a part that holds a comma, a sign or outer spaces stands in double quotes, in which
``""`` is a quote: ``weighted:grade=0.8,"format, strict"=0.2``.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final, cast

from agent_env.errors import RewardError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_PIECE: Final = re.compile(r'"(?:[^"]|"")*"|[^"]')
_SIGNS: Final = "=<>*"
_NUMBER: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)


def _pieces(text: str) -> Iterator[tuple[int, str]]:
    """Single characters and whole quoted texts, with their places."""
    place = 0
    while place < len(text):
        found = _PIECE.match(text, place)
        if found is None:
            raise RewardError(f'a double quote is not closed in {text!r}; inside quotes, a quote is written ""')
        yield place, found[0]
        place = found.end()


def split_parts(text: str, separator: str = ",") -> list[str]:
    """The parts between separators outside quotes, outer spaces stripped; none of an empty text.

    Raises:
        RewardError: an empty part, or a quote that is not closed.
    """
    if not text.strip():
        return []
    parts = [""]
    for _, piece in _pieces(text):
        if piece == separator:
            parts.append("")
        else:
            parts[-1] += piece
    stripped = [part.strip() for part in parts]
    if not all(stripped):
        raise RewardError(f"nothing stands between two {separator!r}, or before or behind one, in {text!r}")
    return stripped


def split_at(part: str, signs: Iterable[str]) -> tuple[str, str, str] | None:
    """A part cut at the first of ``signs`` outside quotes: left, sign, right; longer signs first. `None` = no sign."""
    longest = sorted(signs, key=len, reverse=True)
    for place, piece in _pieces(part):
        if len(piece) > 1:
            continue
        for sign in longest:
            if part.startswith(sign, place):
                return part[:place].strip(), sign, part[place + len(sign) :].strip()
    return None


def step_id(part: str) -> str:
    """A step id as it is, or out of its quotes.

    Raises:
        RewardError: it is empty or only partly quoted, or holds a sign outside quotes.
    """
    text = part.strip()
    if len(text) >= 2 and text[0] == text[-1] == '"' and len(list(_pieces(text))) == 1:
        text = text[1:-1].replace('""', '"')
    elif '"' in text:
        raise RewardError(f"quotes must stand around the whole step id in {part!r}")
    elif any(sign in text for sign in _SIGNS):
        raise RewardError(f"a step id that holds one of {' '.join(_SIGNS)} stands in double quotes, unlike {part!r}")
    if not text:
        raise RewardError("a step id is empty")
    return text


def quoted(step: str) -> str:
    """A step id as any combiner's spec reads it."""
    return '"' + step.replace('"', '""') + '"'


def is_number(text: str) -> bool:
    """Whether this is a decimal number (``nan`` and ``inf`` are none)."""
    return _NUMBER.fullmatch(text.strip()) is not None


def number(text: str, what: str) -> float:
    """A finite decimal number.

    Raises:
        RewardError: it is none; ``what`` names it.
    """
    value = float(text) if is_number(text) else math.nan
    if not math.isfinite(value):
        raise RewardError(f"{what} must be a finite number, not {text!r}")
    return value


def score_of(scores: Mapping[str, float], step: str) -> float:
    """The score of one step.

    Raises:
        RewardError: there is none, or it is no finite number.
    """
    if step not in scores:
        raise RewardError(f"step {step!r} has no score; scored: {', '.join(map(repr, scores)) or 'none'}")
    value = cast("object", scores[step])
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise RewardError(f"the score of step {step!r} must be a finite number, not {value!r}")
    return float(value)


def finite(value: float, what: str) -> float:
    """``value``, when it is finite.

    Raises:
        RewardError: it is not; ``what`` names the combiner.
    """
    if not math.isfinite(value):
        raise RewardError(f"{what} makes {value!r} of the scores, which is no finite number")
    return value


def step_problems(wanted: Iterable[str], steps: Sequence[str]) -> list[str]:
    """For `RewardCombiner.check`: a line for each wanted step that is not among a task's scoring ``steps``."""
    from difflib import get_close_matches

    problems: list[str] = []
    for step in dict.fromkeys(wanted):
        if step not in steps:
            guess = get_close_matches(step, steps, n=1)
            hint = f"; did you mean {guess[0]!r}?" if guess else ""
            there = ", ".join(map(repr, steps)) or "none"
            problems.append(f"no scoring step is called {step!r}; the task's scoring steps: {there}{hint}")
    return problems
