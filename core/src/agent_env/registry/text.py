"""Small things about texts of strangers."""

from __future__ import annotations

import re
from typing import Final

_UNPRINTABLE: Final = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")


def one_line(text: str, limit: int = 500) -> str:
    """``text`` as one line without control characters: it goes to terminals."""
    line = _UNPRINTABLE.sub(" ", text).strip()
    return line if len(line) <= limit else line[: limit - 1] + "…"


def reason_of(error: BaseException) -> str:
    """An exception in one line."""
    try:
        text = one_line(str(error))
    except Exception:  # noqa: BLE001 - a stranger's __str__
        text = ""
    kind = type(error).__name__
    return f"{kind}: {text}" if text else kind


def near(name: str, names: list[str]) -> str | None:
    """The nearest of ``names``, or `None`."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, names, n=1, cutoff=0.6)), None)
