"""Descriptions out of docstrings."""

from __future__ import annotations

import re
from inspect import cleandoc

_SECTION = re.compile(r"^(Args|Arguments|Parameters|Params):\s*$")
_ANY_SECTION = re.compile(r"^[A-Z][A-Za-z ]{2,30}:\s*$")
_ENTRY = re.compile(r"^(\*{0,2}\w+)\s*(\([^)]*\))?\s*:\s*(.*)$")


def split_docstring(text: str | None) -> tuple[str, dict[str, str]]:
    """A Google-style docstring as (text without its ``Args:`` section, descriptions by parameter)."""
    if not text:
        return "", {}
    kept: list[str] = []
    params: dict[str, str] = {}
    inside = False
    indent: int | None = None
    last = ""
    for line in cleandoc(text).split("\n"):
        body = line.strip()
        if not inside:
            inside = _SECTION.match(line) is not None
            if not inside:
                kept.append(line)
            continue
        depth = len(line) - len(line.lstrip())
        if body and (depth == 0 or (_ANY_SECTION.match(body) and indent is not None and depth < indent)):
            inside, indent = False, None
            kept.append(line)
            continue
        if not body:
            continue
        indent = depth if indent is None else indent
        entry = _ENTRY.match(body) if depth <= indent else None
        if entry is not None:
            last = entry[1].lstrip("*")
            params[last] = entry[3]
        elif last:
            params[last] = f"{params[last]} {body}".strip()
    description = re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip()
    return description, params
