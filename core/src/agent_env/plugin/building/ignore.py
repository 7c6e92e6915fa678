"""``.dockerignore``: which files of a folder belong to the build context."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Ignore:
    """The rules of one ``.dockerignore``; the last one that matches a path or a folder above it decides."""

    def __init__(self, text: str) -> None:
        self._rules: list[tuple[re.Pattern[str], bool]] = []
        for raw in text.splitlines():
            line = raw.strip()
            if not line or line.startswith("#"):
                continue
            keep = line.startswith("!")
            pattern = os.path.normpath(line.removeprefix("!").strip()).strip("/")
            if pattern not in {"", "."}:
                self._rules.append((re.compile(_regex(pattern)), keep))
        self.has_exceptions = any(keep for _, keep in self._rules)

    def __call__(self, path: str) -> bool:
        """Whether ``path`` (relative, with ``/``) is left out."""
        parts = path.split("/")
        above = ["/".join(parts[: count + 1]) for count in range(len(parts))]
        ignored = False
        for pattern, keep in self._rules:
            if ignored is keep and any(pattern.fullmatch(name) for name in above):
                ignored = not keep
        return ignored


def _regex(pattern: str) -> str:
    """A pattern of Go's ``filepath.Match`` with ``**``, as a regular expression."""
    result = ""
    place = 0
    while place < len(pattern):
        char = pattern[place]
        if pattern.startswith("**/", place):
            result, place = result + "(?:.*/)?", place + 3
        elif pattern.startswith("**", place):
            result, place = result + ".*", place + 2
        elif char == "*":
            result, place = result + "[^/]*", place + 1
        elif char == "?":
            result, place = result + "[^/]", place + 1
        elif char == "[" and (end := pattern.find("]", place + 2)) > 0:
            result, place = result + _set(pattern[place + 1 : end]), end + 1
        elif char == "\\" and place + 1 < len(pattern):
            result, place = result + re.escape(pattern[place + 1]), place + 2
        else:
            result, place = result + re.escape(char), place + 1
    return result


def _set(inner: str) -> str:
    """A set of characters such as ``a-z`` or ``^abc``; what makes no sense as one stands for itself."""
    negated = inner[0] in "^!" and len(inner) > 1
    body = "".join(char if char == "-" else re.escape(char) for char in inner[negated:]).replace("--", r"\-")
    text = f"[{'^' if negated else ''}{body}]"
    try:
        re.compile(text)
    except re.error:
        return re.escape(f"[{inner}]")
    return text


def files(folder: Path) -> Iterator[str]:
    """Relative paths of the context's files and links, sorted; the ``Dockerfile`` needs no rule of its own."""
    try:
        ignore = Ignore((folder / ".dockerignore").read_text(encoding="utf-8"))
    except FileNotFoundError:
        ignore = Ignore("")
    yield from _walk(str(folder), "", ignore)


def _walk(folder: str, prefix: str, ignore: Ignore) -> Iterator[str]:
    with os.scandir(folder) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        path = prefix + entry.name
        if entry.is_dir(follow_symlinks=False):
            if entry.name != "__pycache__" and (ignore.has_exceptions or not ignore(path)):
                yield from _walk(entry.path, f"{path}/", ignore)
        elif (entry.is_symlink() or entry.is_file()) and not ignore(path):  # a socket or a pipe cannot be sent
            yield path
