"""The registry: what is installed, by kind and name."""

from __future__ import annotations

import os
import threading
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, overload

from agent_env.errors import NameClash, PluginLoadError, UnknownName
from agent_env.registry.catalog import Catalog, build_catalog
from agent_env.registry.clash import clash_message
from agent_env.registry.imports import import_object
from agent_env.registry.kinds import SPECS
from agent_env.registry.messages import unknown_message
from agent_env.registry.sources import given, installed
from agent_env.registry.switches import ALLOW, DISABLE, Switches, comma_list

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from agent_env.plugin import CommandInfo, ParserInfo, RewardInfo, SandboxInfo, StepInfo, TrainerInfo
    from agent_env.registry.collect import Claim
    from agent_env.registry.kinds import Info, Kind
    from agent_env.registry.rows import PluginRow


class Registry:
    """Looks plugins up by kind and name. It may be used from any thread; plugins are found on first use.

    A plugin that is broken is left out and shown by `report`; it never stops the others.
    """

    def __init__(
        self,
        plugins: Mapping[str, object] | None = None,
        *,
        entry_points: bool = True,
        disabled: Iterable[str] = (),
        allowed: Iterable[str] | None = None,
    ) -> None:
        """A registry of its own.

        Args:
            plugins: hook modules beside the installed ones, ``{"<distribution>:<entry point>": module}``.
            entry_points: whether to find installed plugins; False makes a test independent of its environment.
            disabled: plugins to leave out, by distribution or entry-point name; ``*`` = all.
            allowed: the only plugins to use; `None` = all. The core's own parts are always used.
        """
        self._plugins = dict(plugins or {})
        self._entry_points = entry_points
        self._switches = Switches(tuple(disabled), None if allowed is None else tuple(allowed))
        self._lock = threading.RLock()
        self._building = False
        self._catalog: Catalog | None = None

    # -- looking up ---------------------------------------------------------------------------------------------------

    def names(self, kind: Kind) -> Sequence[str]:
        """Names that can be used, sorted."""
        claims = self._found().claims[_known(kind)]
        return tuple(sorted(name for name, owners in claims.items() if len(owners) == 1))

    @overload
    def info(self, kind: Literal["sandbox"], name: str) -> SandboxInfo: ...
    @overload
    def info(self, kind: Literal["reward"], name: str) -> RewardInfo: ...
    @overload
    def info(self, kind: Literal["parser"], name: str) -> ParserInfo: ...
    @overload
    def info(self, kind: Literal["trainer"], name: str) -> TrainerInfo: ...
    @overload
    def info(self, kind: Literal["step"], name: str) -> StepInfo: ...
    @overload
    def info(self, kind: Literal["command"], name: str) -> CommandInfo: ...
    @overload
    def info(self, kind: Kind, name: str) -> Info: ...
    def info(self, kind: Kind, name: str) -> Info:
        """What the plugin says about this name; imports nothing of what the name stands for.

        Raises:
            UnknownName: with what is installed, the nearest name, what to install and what failed to load.
            NameClash: two plugins claim the name; with both distributions and how to switch one off.
        """
        return self._claim(kind, name).info

    def load(self, kind: Kind, name: str) -> Any:
        """The object behind a name: a sandbox's, reward's, parser's or trainer's factory, a step's run, a command.

        Raises:
            UnknownName, NameClash: as `info`.
            PluginLoadError: its import fails; names the distribution and what is missing.
        """
        claim = self._claim(kind, name)
        return self._import(claim, getattr(claim.info, claim.spec.target))

    def load_string(self, kind: Kind, name: str, import_string: str) -> Any:
        """Another object that an info names, such as `SandboxInfo.options` or `StepInfo.model`.

        Raises:
            UnknownName, NameClash, PluginLoadError: as `load`.
        """
        return self._import(self._claim(kind, name), import_string)

    def provider(self, kind: Kind, name: str) -> str:
        """Distribution and version that give a name, for messages.

        Raises:
            UnknownName, NameClash: as `info`.
        """
        return self._claim(kind, name).source.label

    # -- telling ------------------------------------------------------------------------------------------------------

    def report(self, *, load: bool = False) -> Sequence[PluginRow]:
        """Everything that was found, also what is broken, switched off or clashes; sorted by kind and name.

        Args:
            load: also import what each name stands for, so that a broken import shows as ``failed``.
        """
        catalog = self._found()
        rows = catalog.rows(self._load_problem if load else None)
        return tuple(sorted(rows, key=lambda row: row.sort_key()))

    @property
    def notes(self) -> Sequence[str]:
        """What to tell the user about the names in the switches, one line each."""
        return self._found().notes

    # -- inside -------------------------------------------------------------------------------------------------------

    def _found(self) -> Catalog:
        if self._catalog is not None:
            return self._catalog
        with self._lock:
            if self._catalog is None:
                if self._building:
                    raise PluginLoadError("a plugin asked for other plugins while its hook module was imported")
                self._building = True
                try:
                    sources = [*(installed() if self._entry_points else ()), *given(self._plugins)]
                    self._catalog = build_catalog(sources, self._switches)
                finally:
                    self._building = False
            return self._catalog

    def _claim(self, kind: Kind, name: str) -> Claim:
        catalog = self._found()
        owners = catalog.claims[_known(kind)].get(name)
        if owners is None:
            raise UnknownName(unknown_message(kind, name, catalog, self.names(kind)))
        first, *others = owners
        if others:
            raise NameClash(clash_message(kind, name, owners))
        return first

    def _import(self, claim: Claim, string: str) -> Any:
        return import_object(string, f"{claim.spec.kind} {claim.info.name!r}", claim.source)

    def _load_problem(self, claim: Claim) -> str | None:
        try:
            for field in claim.spec.strings:
                string: str | None = getattr(claim.info, field)
                if string is not None and not callable(self._import(claim, string)):
                    return f"{claim.spec.kind} {claim.info.name!r}: {string} is no function or class"
        except PluginLoadError as error:
            return str(error)
        return None


def _known(kind: Kind) -> Kind:
    if kind not in SPECS:
        raise UnknownName(f"there is no kind {kind!r} of plugin; there are: {', '.join(SPECS)}")
    return kind


_default_lock = threading.Lock()


def default_registry() -> Registry:
    """The registry of this environment's plugins, made once.

    ``AGENTENV_DISABLE_PLUGINS`` and ``AGENTENV_PLUGINS`` (comma lists of distribution or entry-point names) switch
    plugins off or allow only some.
    """
    with _default_lock:
        return _default(os.environ.get(DISABLE, ""), os.environ.get(ALLOW, ""))


def forget_default_registry() -> None:
    """Let the next `default_registry` look for plugins again, such as after an install into a running process."""
    _default.cache_clear()


@lru_cache(maxsize=8)
def _default(disabled: str, allowed: str) -> Registry:
    return Registry(disabled=comma_list(disabled), allowed=comma_list(allowed) or None)
