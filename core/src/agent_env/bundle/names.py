"""Names and ids: nearest names, clashes of case, the characters of an id."""

from __future__ import annotations

import difflib
import re
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_ID_BYTES: Final = 4096 - 25
ALIAS: Final = re.compile(r"[a-z0-9-]{1,64}")


def folded(name: str) -> str:
    """Two names with the same folded form are one name on some file systems."""
    return unicodedata.normalize("NFC", name).casefold()


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like ``name``, or `None` when none is near."""
    by_folded: dict[str, str] = {}
    for candidate in known:
        by_folded.setdefault(folded(candidate), candidate)
    if folded(name) in by_folded:
        return by_folded[folded(name)]
    close = difflib.get_close_matches(folded(name), list(by_folded), n=1, cutoff=0.6)
    return by_folded[close[0]] if close else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``"; did you mean 'x'?"``, or ``""`` when no known name is near."""
    near = nearest(name, known)
    return "" if near is None else f"; did you mean {near!r}?"


def listing(names: Iterable[str], *, limit: int = 8) -> str:
    """The names for a message, cut after ``limit``; ``"none"`` without any."""
    all_names = list(names)
    shown = ", ".join(repr(name) for name in all_names[:limit])
    more = f" and {len(all_names) - limit} more" if len(all_names) > limit else ""
    return (shown + more) or "none"


def id_root(folder: Path) -> str:
    """The first part of the ids of a bundle in ``folder``."""
    absolute = folder.absolute()
    home = Path.home()
    if absolute.is_relative_to(home) and absolute != home:
        return f"@local/~/{absolute.relative_to(home).as_posix()}"
    return f"@local/{absolute.as_posix().lstrip('/')}"


def segment_problem(name: str) -> str | None:
    """What is wrong with ``name`` as one segment of an id, or `None`."""
    wrong = sorted({character for character in name if not (character.isalnum() or character in " ._-~@()+,&")})
    if wrong:
        return f"{name!r} holds {listing(wrong)}; a name has letters, digits, spaces and . _ - ~ @ ( ) + , &"
    if not name or name != name.strip():
        return f"{name!r} is empty, or begins or ends with a space"
    return None


def id_problem(identifier: str) -> str | None:
    """What is wrong with a declared id, or `None`."""
    if not identifier.startswith("@local/"):
        return f"the id {identifier!r} has to start with '@local/'"
    if len(identifier.encode(errors="replace")) > MAX_ID_BYTES:
        return f"the id is longer than {MAX_ID_BYTES} bytes"
    for segment in identifier.split("/"):
        problem = segment_problem(segment)
        if problem is not None:
            return f"the id {identifier!r} has a wrong segment: {problem}"
        if segment in {".", ".."}:
            return f"the id {identifier!r} has the segment {segment!r}"
    return None
