"""What the source of an env says without running it: the name on its card."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MAX_SOURCE: Final = 1024 * 1024
_SKIPPED: Final = frozenset({"__pycache__", "node_modules", "site-packages", "tests"})


def environment_name(folder: Path) -> str | None:
    """The one literal name that a class of the folder's Python files declares for its card, or `None`."""
    names = {name for tree in sources(folder, (b"environment_card", b"agent_env.env")) for name in _names(tree)}
    return names.pop() if len(names) == 1 else None


def sources(folder: Path, marks: tuple[bytes, ...]) -> Iterator[ast.Module]:
    """The parsed Python files below ``folder`` that hold one of ``marks``; what does not parse is passed over."""
    for path in sorted(folder.rglob("*.py")):
        inside = path.relative_to(folder).parts
        if any(part in _SKIPPED or part.startswith(".") for part in inside[:-1]):
            continue
        try:
            if path.stat().st_size > _MAX_SOURCE:
                continue
            source = path.read_bytes()
            if any(mark in source for mark in marks):
                yield ast.parse(source)
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            continue


def _names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef):
            continue
        if any(_last_name(base) == "Env" for base in node.bases):
            yield from _literal_name(node.keywords)
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call) and _last_name(decorator.func) == "environment_card":
                yield from _literal_name(decorator.keywords)


def _last_name(node: ast.expr) -> str | None:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None


def _literal_name(keywords: list[ast.keyword]) -> Iterator[str]:
    for keyword in keywords:
        value = keyword.value
        if keyword.arg == "name" and isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield value.value
