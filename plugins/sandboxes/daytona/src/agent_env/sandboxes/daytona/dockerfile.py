"""The instructions of a Dockerfile."""

from __future__ import annotations

import re


def instructions(text: str) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile: word in capitals, and the rest with continued lines joined."""
    found: list[tuple[str, str]] = []
    pending = ""
    heredoc: str | None = None
    for line in text.splitlines():
        if heredoc is not None:
            heredoc = None if line.strip() == heredoc else heredoc
            continue
        if line.lstrip().startswith("#") or (not line.strip() and pending):
            continue
        if line.rstrip().endswith("\\"):
            pending += line.rstrip()[:-1] + " "
            continue
        word, _, rest = (pending + line).strip().partition(" ")
        pending = ""
        if word:
            found.append((word.upper(), rest.strip()))
        here = re.search(r"<<-?\s*([\"']?)(\w+)\1", rest)
        if here is not None and word.upper() in {"RUN", "COPY", "ADD"}:
            heredoc = here[2]
    return found
