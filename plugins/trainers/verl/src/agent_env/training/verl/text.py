"""The text of a reply without the tokens that end a turn."""

from __future__ import annotations

# ruff: noqa: RUF001 - models write these bars
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

ENDS: Final = (
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "</s>",
    "<end_of_turn>",
    "<turn|>",
    "<｜end▁of▁sentence｜>",
    "<|user|>",
    "<|observation|>",
    "[e~[",
)
"""How models of common families end their turn, beside the tokenizer's own end."""


def without_end(text: str, ends: Iterable[str] = ()) -> str:
    """``text`` without the ends of a turn at its end."""
    known = [*ENDS, *(end for end in ends if end)]
    while True:
        shorter = text.rstrip()
        for end in known:
            shorter = shorter.removesuffix(end)
        if shorter == text.rstrip():
            return text
        text = shorter


def ends_turn(text: str, ends: Iterable[str] = ()) -> bool:
    """Whether the text of one token ends a turn."""
    return text.strip() in {*ENDS, *(end for end in ends if end)}


def split_reasoning(text: str) -> tuple[str, str]:
    """A reply's think block and the rest; the block's start may stand in the prompt already."""
    thought, mark, rest = text.rpartition("</think>")
    if not mark:
        return "", text
    return thought.removeprefix("<think>").strip(), rest.strip()
