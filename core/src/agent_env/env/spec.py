"""What an env class serves, read from its decorators once for each class."""

from __future__ import annotations

import inspect
import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from agent_env.env.decorators import (
    DataOperation,
    ExtensionMark,
    ToolMark,
    data_mark,
    extension_mark,
    tool_mark,
)
from agent_env.env.signature import Signature
from agent_env.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from agent_env.env.base import Env

_TOOL_NAME = re.compile(r"[A-Za-z0-9_.\-/]{1,128}")
_OPERATIONS: tuple[DataOperation, ...] = ("data/reset", "data/add", "data/get")


@dataclass(frozen=True, slots=True)
class Handler:
    """One method that is served."""

    attribute: str
    is_async: bool
    signature: Signature


@dataclass(frozen=True, slots=True)
class ToolHandler(Handler):
    """A tool; its name still holds ``{environment_name}`` where the author wrote it."""

    name: str
    mark: ToolMark


@dataclass(frozen=True, slots=True)
class ExtensionHandler(Handler):
    """One operation of an extension and the route it is served on."""

    mark: ExtensionMark
    path: str

    @property
    def operation(self) -> str:
        """Its name among the extension's methods."""
        return self.mark.op or self.attribute


@dataclass(frozen=True, slots=True)
class DataHandler:
    """One data operation."""

    attribute: str
    is_async: bool
    takes_grant: bool = False


@dataclass(frozen=True, slots=True)
class EnvSpec:
    """All that an env class serves."""

    name: str
    tool_access: bool
    tools: tuple[ToolHandler, ...]
    extensions: tuple[ExtensionHandler, ...]
    data: Mapping[DataOperation, DataHandler] = field(default_factory=dict[DataOperation, DataHandler])

    @property
    def served_name(self) -> str:
        """``ENVIRONMENT_NAME``, else the class's name for itself."""
        return os.environ.get("ENVIRONMENT_NAME") or self.name

    @property
    def has_sync(self) -> bool:
        """Whether any handler is a plain function."""
        return not (
            all(handler.is_async for handler in (*self.tools, *self.extensions))
            and all(handler.is_async for handler in self.data.values())
        )


def spec_of(cls: type[Env]) -> EnvSpec:
    """The spec of an env class, made once.

    Raises:
        UsageError: a decorator or a type is used in a way that cannot be served.
    """
    spec: EnvSpec | None = cls.__dict__.get("__agentenv_spec__")
    if spec is None:
        spec = _read(cls)
        type.__setattr__(cls, "__agentenv_spec__", spec)
    return spec


def _read(cls: type[Env]) -> EnvSpec:
    tools: dict[str, ToolHandler] = {}
    extensions: dict[tuple[str, str], ExtensionHandler] = {}
    data: dict[DataOperation, DataHandler] = {}
    for attribute, function in _methods(cls):
        where = f"{cls.__name__}.{attribute}"
        is_async = inspect.iscoroutinefunction(function)
        if (mark := tool_mark(function)) is not None:
            handler = ToolHandler(attribute, is_async, Signature(function, where), mark.name or attribute, mark)
            _check_name(handler.name, where)
            _once(tools, handler.name, handler, f"two tools are named {handler.name!r}", cls)
        if (ext := extension_mark(function)) is not None:
            path = ext.path or _default_path(ext, attribute)
            entry = ExtensionHandler(attribute, is_async, Signature(function, where), ext, path)
            _once(extensions, (ext.method, path), entry, f"two extensions are served at {ext.method} {path}", cls)
        if (operation := data_mark(function)) is not None:
            grant = "write_namespace" in inspect.signature(function).parameters
            _once(data, operation, DataHandler(attribute, is_async, grant), f"two methods serve {operation}", cls)
    ordered: dict[DataOperation, DataHandler] = {
        operation: data[operation] for operation in _OPERATIONS if operation in data
    }
    return EnvSpec(
        cls.env_name or cls.__name__, cls.tool_access, tuple(tools.values()), tuple(extensions.values()), ordered
    )


def _methods(cls: type[Env]) -> list[tuple[str, Callable[..., Any]]]:
    """Marked methods, base classes first, each attribute once and as the most derived class has it."""
    names: dict[str, None] = {}
    for base in reversed(cls.__mro__):
        names.update(dict.fromkeys(vars(base)))
    found: list[tuple[str, Callable[..., Any]]] = []
    for name in names:
        function = inspect.getattr_static(cls, name, None)
        marked = any(mark(function) is not None for mark in (tool_mark, extension_mark, data_mark))
        if inspect.isfunction(function):
            if marked:
                found.append((name, function))
        elif isinstance(function, staticmethod | classmethod) or marked:
            inner: object = getattr(cast("object", function), "__func__", cast("object", function))
            if any(mark(inner) is not None for mark in (tool_mark, extension_mark, data_mark)):
                raise UsageError(f"{cls.__name__}.{name}: only plain methods (with self) can be served")
    return found


def _once(found: dict[Any, Any], key: Any, value: Any, problem: str, cls: type[Env]) -> None:
    if key in found:
        raise UsageError(f"{cls.__name__}: {problem} ({found[key].attribute} and {value.attribute})")
    found[key] = value


def _check_name(name: str, where: str) -> None:
    plain = name.replace("{environment_name}", "env")
    if _TOOL_NAME.fullmatch(plain) is None:
        raise UsageError(
            f"{where}: {name!r} is no tool name; use letters, digits, `_`, `-`, `.` and `{{environment_name}}`"
        )


def _default_path(mark: ExtensionMark, attribute: str) -> str:
    if mark.op is None:
        return f"/agentenv/ext/{attribute}"
    slug = re.sub(r"/v\d+$", "", mark.uri.removeprefix("urn:").removeprefix("agentenv:"))
    return f"/agentenv/ext/{slug.replace(':', '/')}/{mark.op}"
