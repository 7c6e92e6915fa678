"""From an annotation to its `Kind`."""

from __future__ import annotations

import dataclasses
import enum
import types
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from agent_env.env.types import scalars
from agent_env.env.types.containers import (
    MISSING,
    ListKind,
    MapKind,
    Member,
    ObjectKind,
    TupleKind,
    UnionKind,
)
from agent_env.env.types.jsonable import jsonable
from agent_env.env.types.pydantic_kind import is_pydantic, pydantic_kind
from agent_env.errors import UsageError

if TYPE_CHECKING:
    from agent_env.env.types.kind import Kind

_PLAIN: dict[Any, type[Kind]] = {
    Any: scalars.AnyKind,
    object: scalars.AnyKind,
    None: scalars.NoneKind,
    type(None): scalars.NoneKind,
    str: scalars.TextKind,
    bool: scalars.BoolKind,
    int: scalars.IntKind,
    float: scalars.FloatKind,
}
_LISTS = {"list", "List", "Sequence", "Iterable", "Collection", "MutableSequence"}
_SETS = {"set": set, "frozenset": frozenset, "Set": set, "MutableSet": set, "AbstractSet": frozenset}
_MAPS = {"dict", "Mapping", "MutableMapping"}
_SUPPORTED = (
    "str, int, float, bool, None, list, dict, tuple, set, Literal, Enum, Optional, Union, TypedDict, a dataclass, "
    "a pydantic model, date, datetime, time, UUID, Decimal and Annotated of these"
)


class Builder:
    """Makes kinds; one for each schema, because a type that contains itself becomes an entry of its ``$defs``."""

    def __init__(self) -> None:
        self._open: dict[Any, ObjectKind] = {}
        self.defs: dict[str, ObjectKind] = {}

    def kind(self, annotation: Any, where: str) -> Kind:
        """The kind of an annotation.

        Raises:
            UsageError: it is of no supported type; ``where`` names the parameter.
        """
        try:
            plain = _PLAIN.get(annotation)
        except TypeError:
            plain = None
        if plain is not None:
            return plain()
        if is_pydantic(annotation):
            return pydantic_kind(annotation)
        origin = get_origin(annotation)
        if origin is not None:
            return self._generic(annotation, origin, get_args(annotation), where)
        if isinstance(annotation, type):
            return self._class(cast("type[Any]", annotation), where)
        inner = getattr(annotation, "__supertype__", None) or getattr(annotation, "__value__", None)
        if inner is not None:  # NewType, `type X = ...`
            return self.kind(inner, where)
        raise self._unsupported(annotation, where)

    def _generic(self, annotation: Any, origin: Any, args: tuple[Any, ...], where: str) -> Kind:
        if origin in (Annotated, Required, NotRequired):
            return self.kind(args[0], where)
        if origin is Literal:
            return scalars.ChoiceKind([(_scalar(value, where), value) for value in args])
        if origin in (Union, types.UnionType):
            return UnionKind([self.kind(arg, where) for arg in args])
        name = getattr(origin, "__name__", "")
        if origin is tuple:
            if len(args) == 2 and args[1] is Ellipsis:
                return ListKind(self.kind(args[0], where), tuple)
            return TupleKind([self.kind(arg, where) for arg in args if arg != ()])
        if name in _LISTS:
            return ListKind(self.kind(args[0], where))
        if name in _SETS:
            return ListKind(self.kind(args[0], where), _SETS[name])
        if name in _MAPS:
            if args[0] not in (str, Any):
                raise UsageError(f"{where}: the keys of a JSON object are strings, write dict[str, ...]")
            return MapKind(self.kind(args[1], where))
        raise self._unsupported(annotation, where)

    def _class(self, cls: type[Any], where: str) -> Kind:
        if issubclass(cls, enum.Enum):
            return scalars.ChoiceKind([(_scalar(member.value, where), member) for member in cls])
        if is_typeddict(cls):
            return self._object(cls, dict, where)
        if dataclasses.is_dataclass(cls):
            return self._object(cls, cls, where)
        if cls in (list, tuple, set, frozenset):
            return ListKind(scalars.AnyKind(), None if cls is list else cls)
        if cls is dict:
            return MapKind(scalars.AnyKind())
        parsed = _parsed_text(cls)
        if parsed is None:
            raise self._unsupported(cls, where)
        return parsed

    def _object(self, cls: type[Any], make: Any, where: str) -> Kind:
        known = self._open.get(cls)
        if known is not None:
            if known.ref is None:
                known.ref = cls.__name__ if cls.__name__ not in self.defs else f"{cls.__name__}{len(self.defs)}"
                self.defs[known.ref] = known
            return known
        kind = self._open[cls] = ObjectKind(cls.__name__, make)
        hints = get_type_hints(cls, include_extras=True)
        members = _typeddict_members if is_typeddict(cls) else _dataclass_members
        kind.members = {
            name: Member(
                name,
                self.kind(hints[name], f"{where}: field {name!r} of {cls.__name__}"),
                description_of(hints[name]),
                required,
                default,
            )
            for name, required, default in members(cls, hints)
        }
        if kind.ref is None:
            del self._open[cls]
        return kind

    def _unsupported(self, annotation: Any, where: str) -> UsageError:
        name = getattr(annotation, "__name__", None) or repr(annotation)
        return UsageError(f"{where}: the type {name} has no JSON form here; supported are {_SUPPORTED}")


def description_of(annotation: Any) -> str:
    """The first text in ``Annotated[...]``, else ``""``."""
    while get_origin(annotation) in (Required, NotRequired):
        annotation = get_args(annotation)[0]
    if get_origin(annotation) is Annotated:
        for item in get_args(annotation)[1:]:
            if isinstance(item, str):
                return item
    return ""


def _typeddict_members(cls: type[Any], hints: dict[str, Any]) -> list[tuple[str, bool, Any]]:
    required: frozenset[str] = cls.__required_keys__  # pyright: ignore[reportAttributeAccessIssue]
    # With postponed annotations __required_keys__ does not see NotRequired: the resolved hint does.
    marks = {name: get_origin(hint) for name, hint in hints.items()}
    return [
        (name, marks[name] is Required or (marks[name] is not NotRequired and name in required), MISSING)
        for name in hints
    ]


def _dataclass_members(cls: type[Any], hints: dict[str, Any]) -> list[tuple[str, bool, Any]]:
    found: list[tuple[str, bool, Any]] = []
    for item in dataclasses.fields(cls):
        if not item.init or item.name not in hints:
            continue
        has_default = item.default is not dataclasses.MISSING
        required = not has_default and item.default_factory is dataclasses.MISSING
        found.append((item.name, required, jsonable(item.default, MISSING) if has_default else MISSING))
    return found


def _scalar(value: object, where: str) -> Any:
    if value is None or isinstance(value, str | int | float | bool):
        return value.value if isinstance(value, enum.Enum) else value
    if isinstance(value, enum.Enum):
        return _scalar(value.value, where)
    raise UsageError(f"{where}: the choice {value!r} is no JSON scalar (string, number, boolean, null)")


def _parsed_text(cls: type[Any]) -> Kind | None:
    match (cls.__module__, cls.__qualname__):
        case ("datetime", "date"):
            return scalars.ParsedTextKind("a date such as 2024-05-31", cls.fromisoformat, "date")
        case ("datetime", "datetime"):
            return scalars.ParsedTextKind("a time such as 2024-05-31T14:00:00Z", cls.fromisoformat, "date-time")
        case ("datetime", "time"):
            return scalars.ParsedTextKind("a time of day such as 14:00", cls.fromisoformat, "time")
        case ("uuid", "UUID"):
            return scalars.ParsedTextKind("a UUID", cls, "uuid")
        case ("decimal", "Decimal"):
            return scalars.ParsedTextKind("a decimal number", cls, None, numbers=True)
        case _:
            return None
