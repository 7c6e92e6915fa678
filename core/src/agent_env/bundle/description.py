"""The description of a bundle: the first line of text of its ``README.md``, however that is capitalised."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_COMMENT: Final = re.compile(r"<!--.*?-->", re.DOTALL)
_FRONT_MATTER: Final = re.compile(r"\A---[ \t]*\n.*?\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_LINK_DEFINITION: Final = re.compile(r"\[[^\]]+\]:")
_MAX_BYTES: Final = 64 * 1024


def description(folder: Path) -> str:
    """The first line that is text, headings included; front matter, badges and HTML are passed over."""
    named = [entry for entry in folder.iterdir() if entry.name.lower() == "readme.md" and entry.is_file()]
    if not named:
        return ""
    readme = next((entry for entry in named if entry.name == "README.md"), named[0])
    try:
        with readme.open("rb") as file:
            text = file.read(_MAX_BYTES).decode(errors="replace")
    except OSError:
        return ""
    text = _COMMENT.sub("", _FRONT_MATTER.sub("", text.replace("\r\n", "\n")))
    in_html = False
    for line in text.splitlines():
        words = line.strip()
        if in_html or words.startswith("<"):
            in_html = bool(words) and not words.startswith("<a ")  # a block of HTML ends with an empty line
            continue
        words = words.lstrip("#").strip()
        if words and not words.startswith(("[![", "![")) and _LINK_DEFINITION.match(words) is None:
            return words
    return ""
