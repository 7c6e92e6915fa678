"""Whether an info that a hook returned makes sense."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from agent_env.registry.imports import IMPORT_STRING

if TYPE_CHECKING:
    from agent_env.registry.kinds import Info, KindSpec


def problem_of(item: object, spec: KindSpec) -> str | None:
    """What is wrong with one element of a hook's list, or `None`."""
    wanted = spec.info.__name__
    if not isinstance(item, spec.info):
        return f"{spec.hook}() holds {_shown(item)}, expected a {wanted}"
    return _name_problem(item.name, spec) or _fields_problem(item, spec)


def _name_problem(name: object, spec: KindSpec) -> str | None:
    if not isinstance(name, str):
        return f"{spec.hook}(): the name {_shown(name)} is no string"
    if spec.pattern.fullmatch(name) is None:
        return f"{spec.hook}(): {name!r} is no name of a {spec.kind}: {spec.pattern_words}"
    if name in spec.reserved:
        return f"{spec.hook}(): {name!r} cannot be the name of a {spec.kind}, it has a meaning of its own in specs"
    return None


def _fields_problem(item: Info, spec: KindSpec) -> str | None:
    where = f"{spec.kind} {item.name!r}"
    if not isinstance(cast("object", item.summary), str):
        return f"{where}: the summary {_shown(item.summary)} is no string"
    for field in spec.strings:
        value: object = getattr(item, field)
        if value is None and field == "options":
            continue
        if not isinstance(value, str) or IMPORT_STRING.fullmatch(value) is None:
            return f"{where}: {field} is {_shown(value)}, expected an import string 'package.module:attribute'"
    return None


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a stranger's __repr__
        text = f"a {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."
