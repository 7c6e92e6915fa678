"""The name somebody probably meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The closest of the ``known`` names, or `None` when none is close."""
    from difflib import get_close_matches

    found = get_close_matches(name[:200], list(known), n=1, cutoff=0.6)
    return found[0] if found else None
