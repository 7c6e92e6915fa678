"""From a plugin that was found to the infos it offers and what is wrong with it."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, cast

import pluggy
from agent_env.plugin import hookspecs
from agent_env.plugin.markers import PROJECT
from agent_env.registry.check_infos import problem_of
from agent_env.registry.imports import why
from agent_env.registry.kinds import HOOKS, Info, KindSpec
from agent_env.registry.text import near, one_line, reason_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agent_env.registry.rows import RowKind
    from agent_env.registry.sources import Source


@dataclass(frozen=True, slots=True)
class Claim:
    """A name that a plugin offers."""

    source: Source
    spec: KindSpec
    info: Info


@dataclass(frozen=True, slots=True)
class Fault:
    """Something wrong with a plugin: all of it (kind ``plugin``), a hook, or one info (with a name)."""

    source: Source
    kind: RowKind
    name: str
    reason: str


def collect(source: Source) -> tuple[list[Claim], list[Fault]]:
    """Import the plugin's hook module and ask its hooks; whatever goes wrong becomes a `Fault`."""
    if source.problem:
        return [], [_whole(source, source.problem)]
    try:
        plugin = source.load()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - isolating plugins is the point
        return [], [_whole(source, f"cannot be imported: {why(error, source)}")]
    faults = [_whole(source, reason) for reason in _unmarked(plugin)]
    manager = _register(plugin, source, faults)
    claims: list[Claim] = []
    hooks = 0
    for spec in HOOKS.values():
        for implementation in cast("pluggy.HookCaller", getattr(manager.hook, spec.hook)).get_hookimpls():
            hooks += 1
            _ask(implementation, spec, source, claims, faults)
    if not hooks and not faults:
        faults.append(_whole(source, f"implements no hook; there are: {', '.join(HOOKS)}"))
    return claims, faults


def _whole(source: Source, reason: str) -> Fault:
    return Fault(source, "plugin", source.entry_point, one_line(reason))


def _manager() -> pluggy.PluginManager:
    # One manager for each plugin: what one registers cannot wrap, order or undo the hooks of another.
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(hookspecs)
    return manager


def _register(plugin: object, source: Source, faults: list[Fault]) -> pluggy.PluginManager:
    """Register the plugin; when pluggy refuses one of its hooks, the others still count."""
    name = f"{source.distribution}:{source.entry_point}"
    manager = _manager()
    try:
        manager.register(plugin, name=name)
        manager.check_pending()
    except Exception:  # noqa: BLE001
        manager = _manager()
    else:
        return manager
    for attribute in _marked(plugin):
        part = SimpleNamespace(**{attribute: getattr(plugin, attribute)})
        alone = _manager()
        try:
            alone.register(part, name=name)
            alone.check_pending()
        except Exception as error:  # noqa: BLE001
            faults.append(_refused(attribute, error, source))
        else:
            manager.register(part, name=f"{name}:{attribute}")
    return manager


def _refused(attribute: str, error: Exception, source: Source) -> Fault:
    spec = HOOKS.get(attribute)
    if spec is None:
        return _whole(source, _no_such_hook(attribute))
    if "hookspec" in str(error):
        return Fault(source, spec.kind, "", f"{attribute}() must take no argument")
    return Fault(source, spec.kind, "", f"{attribute}(): {reason_of(error)}")


def _no_such_hook(name: str) -> str:
    guess = near(name, list(HOOKS))
    return f"there is no hook {name!r}" + (
        f"; did you mean {guess!r}?" if guess is not None else f"; there are: {', '.join(HOOKS)}"
    )


def _routines(plugin: object) -> Iterator[tuple[str, object]]:
    for attribute in dir(plugin):
        try:
            value: object = getattr(plugin, attribute)
        except Exception:  # noqa: BLE001, S112 - an attribute that cannot be read is no hook
            continue
        if inspect.isroutine(value):
            yield attribute, value


def _mark(value: object) -> object:
    try:
        return getattr(value, f"{PROJECT}_impl", None)
    except Exception:  # noqa: BLE001
        return None


def _marked(plugin: object) -> list[str]:
    return [attribute for attribute, value in _routines(plugin) if _mark(value) is not None]


def _unmarked(plugin: object) -> Iterator[str]:
    """Functions that are named like a hook and lack the mark: they would be passed over in silence."""
    home = plugin.__name__ if isinstance(plugin, ModuleType) else None
    for attribute, value in _routines(plugin):
        if not attribute.startswith("agentenv_") or _mark(value) is not None:
            continue
        if home is None or getattr(value, "__module__", None) == home:
            yield f"{attribute}() has no mark @agent_env.plugin.hookimpl"


def _ask(
    implementation: pluggy.HookImpl, spec: KindSpec, source: Source, claims: list[Claim], faults: list[Fault]
) -> None:
    try:
        answer: object = implementation.function()
    except (Exception, SystemExit) as error:  # noqa: BLE001
        faults.append(Fault(source, spec.kind, "", one_line(f"{spec.hook}() raised {reason_of(error)}")))
        return
    if not isinstance(answer, list | tuple):
        if inspect.iscoroutine(answer):
            answer.close()
        reason = f"{spec.hook}() returned a {type(answer).__name__}, expected a list of {spec.info.__name__}"
        faults.append(Fault(source, spec.kind, "", reason))
        return
    names: set[str] = set()
    for item in cast("list[object]", answer):
        problem = problem_of(item, spec)
        name = _name(item)
        if problem is None and name in names:
            problem = f"{spec.hook}() gives {name!r} twice; the first counts"
        if problem is None:
            names.add(name)
            claims.append(Claim(source, spec, cast("Info", item)))
        else:
            faults.append(Fault(source, spec.kind, name, one_line(problem)))


def _name(item: object) -> str:
    try:
        name: object = getattr(item, "name", None)
    except Exception:  # noqa: BLE001
        return ""
    return one_line(name) if isinstance(name, str) else ""
