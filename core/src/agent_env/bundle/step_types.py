"""Finds the model of a step type: the built-in ones, then those of plugins."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

from agent_env.bundle.names import did_you_mean
from agent_env.bundle.steps import BUILTIN
from agent_env.bundle.steps.not_played import NOT_PLAYED
from agent_env.errors import PluginError, UnknownName
from agent_env.plugin.step import StepModel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent_env.plugin.infos import StepInfo


class StepRegistry(Protocol):
    """The part of `agent_env.registry.Registry` that reading a bundle needs."""

    def names(self, kind: Literal["step"], /) -> Sequence[str]: ...

    def info(self, kind: Literal["step"], name: str, /) -> StepInfo: ...

    def load_string(self, kind: Literal["step"], name: str, import_string: str, /) -> Any: ...


class StepTypes:
    """Models by name, each looked up once."""

    def __init__(self, registry: StepRegistry | None) -> None:
        """``registry`` `None` = the default one, read only when a task uses a type that is not built in."""
        self._registry = registry
        self._found: dict[str, type[StepModel] | str] = {}

    def find(self, name: str) -> type[StepModel] | str:
        """The model, or why there is none."""
        if name not in self._found:
            self._found[name] = self._look_up(name)
        return self._found[name]

    def _look_up(self, name: str) -> type[StepModel] | str:
        if name in BUILTIN:
            module, _, attribute = BUILTIN[name].partition(":")
            return cast("type[StepModel]", getattr(importlib.import_module(module), attribute))
        registry = self._plugins()
        known = set(registry.names("step"))
        if name in NOT_PLAYED and name not in known:
            return f"{name!r} {NOT_PLAYED[name]}"
        try:
            model = registry.load_string("step", name, registry.info("step", name).model)
        except UnknownName as error:
            near = did_you_mean(name, {*BUILTIN, *known})
            return f"unknown step type {name!r}{near}" if near else f"unknown step type {name!r}: {error}"
        except PluginError as error:
            return f"the step type {name!r} cannot be used: {error}"
        if not isinstance(model, type) or not issubclass(model, StepModel):
            return f"the step type {name!r} of a plugin has no model: its StepInfo.model is no StepModel subclass"
        return model

    def _plugins(self) -> StepRegistry:
        if self._registry is None:
            from agent_env.registry import default_registry

            self._registry = cast("StepRegistry", default_registry())
        return self._registry
