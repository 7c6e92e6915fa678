"""The decorators that mark what an env serves. They only leave a mark: `agent_env.env.spec` reads it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, overload

from agent_env.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])
DataOperation = Literal["data/reset", "data/add", "data/get"]
_TOOL = "__agentenv_tool__"
_EXTENSION = "__agentenv_extension__"
_DATA = "__agentenv_data__"


@dataclass(frozen=True, slots=True)
class ToolMark:
    """What `tool` was given."""

    name: str | None = None
    description: str | None = None
    hidden_by_default: bool = False
    annotations: Mapping[str, Any] | None = None
    meta: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ExtensionMark:
    """What `extension` was given."""

    uri: str
    op: str | None = None
    method: str = "POST"
    path: str | None = None
    params: Mapping[str, Any] | None = None
    description: str | None = None
    required: bool | None = None


@overload
def tool(function: F, /) -> F: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    hidden_by_default: bool = False,
    annotations: Mapping[str, Any] | None = None,
    meta: Mapping[str, Any] | None = None,
) -> Callable[[F], F]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    hidden_by_default: bool = False,
    annotations: Mapping[str, Any] | None = None,
    meta: Mapping[str, Any] | None = None,
) -> Any:
    """Serve a method as an MCP tool, as ``@tool`` or ``@tool(...)``.

    The parameters' types make the schema, the docstring the description; ``Annotated[int, "meaning"]`` or an ``Args:``
    section describes a parameter. Sync methods run one after the other in the process's main thread, async ones on
    the event loop.

    Args:
        function: the method.
        name: instead of the method's name; ``{environment_name}`` in it becomes the env's name.
        description: instead of the docstring.
        hidden_by_default: no role sees it until a task allows it.
        annotations: MCP annotations, such as ``{"readOnlyHint": True}``.
        meta: MCP ``_meta`` of the tool.
    """

    def mark(method: F) -> F:
        setattr(method, _TOOL, ToolMark(name, description, hidden_by_default, annotations, meta))
        return method

    return mark if function is None else mark(function)


def extension(
    uri: str,
    *,
    op: str | None = None,
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"] = "POST",
    path: str | None = None,
    params: Mapping[str, Any] | None = None,
    description: str | None = None,
    required: bool | None = None,
) -> Callable[[F], F]:
    """Serve a method as an extension: what tasks and verifiers call, never the model.

    Args:
        uri: name of the extension, such as ``urn:clock:load/v1``.
        op: name of this operation when one extension has several.
        method: HTTP method; GET takes the parameters from the query string.
        path: instead of ``/agentenv/ext/<function>`` or ``/agentenv/ext/<extension>/<op>``.
        params: further entries of ``params`` on the card.
        description: instead of the docstring.
        required: what the card says.
    """
    if path is not None and not path.startswith("/"):
        raise UsageError(f"extension {uri}: the path {path!r} must start with a slash")

    def mark(function: F) -> F:
        setattr(function, _EXTENSION, ExtensionMark(uri, op, method, path, params, description, required))
        return function

    return mark


def reset_data(function: F) -> F:
    """Serve ``data/reset``: forget all data. Takes nothing."""
    return _data(function, "data/reset")


def add_data(function: F) -> F:
    """Serve ``data/add``: takes the list of parts (`agent_env.env.parts` reads one)."""
    return _data(function, "data/add")


def get_data(function: F) -> F:
    """Serve ``data/get``: returns a list of parts. A parameter ``write_namespace`` gets the upload grant or `None`."""
    return _data(function, "data/get")


def _data(function: F, operation: DataOperation) -> F:
    setattr(function, _DATA, operation)
    return function


def tool_mark(function: object) -> ToolMark | None:
    """The mark of `tool`."""
    return getattr(function, _TOOL, None)


def extension_mark(function: object) -> ExtensionMark | None:
    """The mark of `extension`."""
    return getattr(function, _EXTENSION, None)


def data_mark(function: object) -> DataOperation | None:
    """The mark of `reset_data`, `add_data` or `get_data`."""
    return getattr(function, _DATA, None)
