"""What a ``requirements.txt`` asks for: the lines to install and a digest of everything that they bring."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from agent_env.errors import BuildFailed

if TYPE_CHECKING:
    from pathlib import Path

_CORE = re.compile(r"agentenv[-_.]core\s*(\[[^\]]*\])?\s*([<>=!~;@ ].*)?", re.IGNORECASE)
_FOREIGN = re.compile(r"agentenv[-_.]framework(?![-_.\w])", re.IGNORECASE)
_INCLUDE = re.compile(r"(?:-r|--requirement|-c|--constraint)[\s=]+(\S+)")
_LOCAL = re.compile(r"\.{0,2}/|file:|\.$|\.\[")


def without_comments(text: str) -> list[str]:
    """The lines that say something, continued ones joined."""
    joined = re.sub(r"\\\r?\n", " ", text)
    lines = (re.sub(r"(^|\s)#.*$", "", line).strip() for line in joined.splitlines())
    return [line for line in lines if line]


def installed(folder: Path, text: str) -> tuple[list[str], bool]:
    """Lines to hand to the installer, and whether our own core goes in beside them.

    Included files are put in place, and local paths made absolute. Our core is never asked of an index: its lines are
    taken out and the running version's wheel takes their place. It is left out beside the package that claims its
    import name.
    """
    lines = _flat(folder, text, frozenset())
    foreign = any(_FOREIGN.match(line) for line in lines)
    return [line for line in lines if not _CORE.fullmatch(line)], not foreign


def _flat(folder: Path, text: str, above: frozenset[Path]) -> list[str]:
    lines: list[str] = []
    for line in without_comments(text):
        include = _INCLUDE.match(line)
        if include is None:
            lines.append(str(folder / line) if _LOCAL.match(line) and not line.startswith(("/", "file:")) else line)
            continue
        path = (folder / include[1]).resolve()
        if line.startswith(("-c", "--constraint")):
            lines.append(f"-c {path}")
        elif path not in above:
            lines += _flat(path.parent, _included(folder, path, line), above | {path})
    return lines


def digest(folder: Path, text: str) -> str:
    """Changes when the requirements change, also by a file that they include.

    Raises:
        BuildFailed: an editable requirement, or an included file that cannot be read.
    """
    state = hashlib.sha256()
    todo: list[tuple[Path, str]] = [(folder, text)]
    seen: set[Path] = set()
    while todo:
        base, content = todo.pop()
        for line in without_comments(content):
            state.update(line.encode() + b"\n")
            if line.startswith(("-e ", "-e=", "--editable")):
                raise BuildFailed(
                    f"env {folder.name!r}: requirements.txt: {line!r}: an env is not installed editable; "
                    "write the path without -e",
                    provider="process",
                )
            include = _INCLUDE.match(line)
            if include is not None:
                path = (base / include[1]).resolve()
                if path not in seen:
                    seen.add(path)
                    todo.append((path.parent, _included(folder, path, line)))
            elif _LOCAL.match(line):
                _add_folder(state, folder)
    return state.hexdigest()


def _included(folder: Path, path: Path, line: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BuildFailed(f"env {folder.name!r}: requirements.txt: {line!r}: {error}", provider="process") from error


def _add_folder(state: hashlib._Hash, folder: Path) -> None:  # pyright: ignore[reportPrivateUsage]
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            state.update(str(path.relative_to(folder)).encode())
            state.update(path.read_bytes())
