"""A function's parameters as one JSON Schema, and JSON arguments as the function's keywords."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

from agent_env.env.context import ToolContext
from agent_env.env.docs import split_docstring
from agent_env.env.types.build import Builder, description_of
from agent_env.env.types.containers import MISSING, Member, ObjectKind
from agent_env.env.types.jsonable import jsonable
from agent_env.env.types.kind import Reading
from agent_env.env.types.pydantic_kind import PydanticKind
from agent_env.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from agent_env.env.types.kind import Kind


class Signature:
    """The parameters of one tool or extension.

    Attributes:
        description: the docstring without its ``Args:`` section.
        schema: JSON Schema of the arguments, an object schema.
        context: name of the parameter that takes the `ToolContext`, or `None`.
    """

    def __init__(self, function: Callable[..., Any], where: str) -> None:
        self.description, described = split_docstring(function.__doc__)
        self.context: str | None = None
        builder = Builder()
        members: dict[str, Member] = {}
        extra: Kind | None = None
        hints = _hints(function, where)
        for name, parameter in list(inspect.signature(function).parameters.items())[1:]:  # without self
            place = f"{where}: parameter {name!r}"
            if name not in hints:
                raise UsageError(f"{place} has no type; write one, such as `{name}: str`")
            if _is_context(hints[name]):
                self.context = name
                continue
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
                raise UsageError(f"{place} cannot be given by name, as arguments are")
            kind = builder.kind(hints[name], place)
            if parameter.kind is parameter.VAR_KEYWORD:
                extra = kind
                continue
            required = parameter.default is parameter.empty
            default = MISSING if required else jsonable(parameter.default, MISSING)
            text = description_of(hints[name]) or described.get(name, "")
            members[name] = Member(name, kind, text, required, default)
        self._object = ObjectKind(where, dict, noun="argument", extra=extra)
        self._object.members = members
        self.schema = self._object.body()
        defs: dict[str, Any] = {name: kind.body() for name, kind in builder.defs.items()}
        for member in members.values():
            if isinstance(member.kind, PydanticKind):
                defs.update(member.kind.defs)
        if defs:
            self.schema["$defs"] = defs

    def read(self, arguments: Mapping[str, object], *, lax: bool = False) -> tuple[dict[str, Any], list[str]]:
        """The keywords for the function, and what is wrong with the arguments (then they must not be used)."""
        reading = Reading(lax)
        return self._object.fields(arguments, "", reading), reading.problems


def _hints(function: Callable[..., Any], where: str) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except NameError as error:
        raise UsageError(
            f"{where}: a type cannot be resolved ({error}); define it at the top level of the module, "
            "not under `if TYPE_CHECKING` nor inside a function"
        ) from error
    except TypeError as error:
        raise UsageError(f"{where}: a type cannot be read ({error})") from error


def _is_context(annotation: Any) -> bool:
    return annotation is ToolContext or (get_origin(annotation) is not None and ToolContext in get_args(annotation))
