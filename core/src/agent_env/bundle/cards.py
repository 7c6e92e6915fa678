"""What the source of an env says without running it: the name on its card and the names of its tools."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MAX_SOURCE: Final = 1024 * 1024
_MARKS: Final = (b"environment_card", b"agent_env.env")
_SKIPPED: Final = frozenset({"__pycache__", "node_modules", "site-packages", "tests"})


def environment_name(folder: Path) -> str | None:
    """The one literal name that a class of the folder's Python files declares for its card, or `None`."""
    names = {name for tree in _sources(folder) for name in _names(tree)}
    return names.pop() if len(names) == 1 else None


def declares_card(folder: Path) -> bool:
    """Whether exactly one ``@environment_card`` gives a literal name: all that other readers of the format look for."""
    found = [name for tree in _sources(folder) for node in ast.walk(tree) for name in _card_names(node)]
    return len(found) == 1


def tool_names(folder: Path) -> tuple[str, ...]:
    """Tools that the env surely offers to every role; empty when its source does not say.

    It is sure when the folder has one env class: what its own methods mark with ``@tool`` under a literal name.
    """
    classes = [node for tree in _sources(folder) for node in ast.walk(tree) if _is_env(node)]
    if len(classes) != 1:
        return ()
    body = cast("ast.ClassDef", classes[0]).body
    methods = [node for node in body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    names = (_tool_name(method, decorator) for method in methods for decorator in method.decorator_list)
    return tuple(name for name in names if name is not None)


def _sources(folder: Path) -> Iterator[ast.Module]:
    """The parsed Python files below ``folder`` that name an env SDK; what does not parse is passed over."""
    for path in sorted(folder.rglob("*.py")):
        inside = path.relative_to(folder).parts
        if any(part in _SKIPPED or part.startswith(".") for part in inside[:-1]):
            continue
        try:
            if path.stat().st_size > _MAX_SOURCE:
                continue
            source = path.read_bytes()
            if any(mark in source for mark in _MARKS):
                yield ast.parse(source)
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            continue


def _names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef):
            continue
        if any(_last_name(base) == "Env" for base in node.bases):
            yield from _literal_name(node.keywords)
        yield from _card_names(node)


def _card_names(node: ast.AST) -> Iterator[str]:
    for decorator in node.decorator_list if isinstance(node, ast.ClassDef) else ():
        if isinstance(decorator, ast.Call) and _last_name(decorator.func) == "environment_card":
            yield from _literal_name(decorator.keywords)


def _is_env(node: ast.AST) -> bool:
    if not isinstance(node, ast.ClassDef):
        return False
    calls = [decorator.func for decorator in node.decorator_list if isinstance(decorator, ast.Call)]
    return any(_last_name(base) == "Env" for base in node.bases) or any(
        _last_name(call) == "environment_card" for call in calls
    )


def _tool_name(method: ast.FunctionDef | ast.AsyncFunctionDef, decorator: ast.expr) -> str | None:
    """The tool's name when ``decorator`` is ``@tool`` or ``@tool(...)`` and says it plainly."""
    if not isinstance(decorator, ast.Call):
        return method.name if _last_name(decorator) == "tool" else None
    if _last_name(decorator.func) != "tool" or decorator.args:
        return None
    given = {keyword.arg: keyword.value for keyword in decorator.keywords}
    if None in given or "hidden_by_default" in given:
        return None
    if "name" not in given:
        return method.name
    name = given["name"].value if isinstance(given["name"], ast.Constant) else None
    return name if isinstance(name, str) and "{" not in name else None


def _last_name(node: ast.expr) -> str | None:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None


def _literal_name(keywords: list[ast.keyword]) -> Iterator[str]:
    for keyword in keywords:
        value = keyword.value
        if keyword.arg == "name" and isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield value.value
