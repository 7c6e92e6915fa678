"""Lists, tuples, sets, maps, unions and objects with named fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from agent_env.env.nearest import nearest
from agent_env.env.types.kind import Kind, Reading, joined
from agent_env.env.types.scalars import NoneKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

MISSING: Any = object()
"""Stands for "no default"."""


class ListKind(Kind):
    expected = "a list"

    def __init__(self, item: Kind, make: Callable[[list[Any]], Any] | None = None) -> None:
        self._item = item
        self._make = make

    def schema(self) -> dict[str, Any]:
        items = self._item.schema()
        return {"type": "array", "items": items} if items else {"type": "array"}

    def read(self, value: object, where: str, reading: Reading) -> Any:
        if not isinstance(value, list):
            reading.wrong(where, self.expected, value)
            return None
        before = len(reading.problems)
        items = [self._item.read(item, f"{where}[{i}]", reading) for i, item in enumerate(cast("list[object]", value))]
        if self._make is None or len(reading.problems) > before:
            return items
        try:
            return self._make(items)
        except TypeError:  # a set of what cannot be hashed
            reading.problems.append(f"{where}: its items cannot be members of a set")
            return None


class TupleKind(Kind):
    def __init__(self, items: Sequence[Kind]) -> None:
        self._items = items
        self.expected = f"a list of {len(items)} items"

    def schema(self) -> dict[str, Any]:
        size = len(self._items)
        head: dict[str, Any] = {"type": "array", "minItems": size, "maxItems": size}
        if self._items:
            head["prefixItems"] = [item.schema() for item in self._items]
        return head

    def read(self, value: object, where: str, reading: Reading) -> Any:
        if not isinstance(value, list):
            reading.wrong(where, self.expected, value)
            return None
        items = cast("list[object]", value)
        if len(items) != len(self._items):
            reading.problems.append(f"{where}: expected {self.expected}, got {len(items)}")
            return None
        return tuple(
            kind.read(item, f"{where}[{i}]", reading)
            for i, (kind, item) in enumerate(zip(self._items, items, strict=True))
        )


class MapKind(Kind):
    expected = "an object"

    def __init__(self, value: Kind) -> None:
        self._value = value

    def schema(self) -> dict[str, Any]:
        values = self._value.schema()
        return {"type": "object", "additionalProperties": values} if values else {"type": "object"}

    def read(self, value: object, where: str, reading: Reading) -> Any:
        if not isinstance(value, dict):
            reading.wrong(where, self.expected, value)
            return None
        fields = cast("dict[str, object]", value)
        return {key: self._value.read(item, f"{where}.{key}", reading) for key, item in fields.items()}


class UnionKind(Kind):
    def __init__(self, members: Sequence[Kind]) -> None:
        self._members = members
        self.expected = joined([member.expected for member in members])

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [member.schema() for member in self._members]}

    def read(self, value: object, where: str, reading: Reading) -> Any:
        failed: list[Reading] = []
        for lax in (False, True) if reading.lax else (False,):
            for member in self._members:
                attempt = Reading(lax)
                result = member.read(value, where, attempt)
                if not attempt.problems:
                    return result
                if not isinstance(member, NoneKind):
                    failed.append(attempt)
        # A message from inside the one member that fits the value's shape says more than "a, b or c".
        deep = [attempt for attempt in failed if not attempt.problems[0].startswith(f"{where}: expected")]
        if len(deep) == 1:
            reading.problems.extend(deep[0].problems)
        else:
            reading.wrong(where, self.expected, value)
        return value


@dataclass(frozen=True, slots=True)
class Member:
    """A field of an object: ``default`` is `MISSING` when it must be given, `None` as ``kind`` cannot be."""

    name: str
    kind: Kind
    description: str = ""
    required: bool = True
    default: Any = MISSING

    def schema(self) -> dict[str, Any]:
        """The field's own schema with its description and default."""
        schema = dict(self.kind.schema())
        if self.description:
            schema["description"] = self.description
        if self.default is not MISSING:
            schema["default"] = self.default
        return schema


class ObjectKind(Kind):
    """Named fields: `TypedDict`, dataclass and the parameters of a function.

    Args:
        name: for messages and ``$defs``.
        make: turns the fields that were given into the value.
        extra: kind of further fields; `None` = there may be none.
    """

    expected = "an object"

    def __init__(self, name: str, make: Callable[..., Any], *, noun: str = "field", extra: Kind | None = None) -> None:
        self.name = name
        self.members: Mapping[str, Member] = {}
        self.ref: str | None = None
        """Set when the type contains itself: its schema then stands in ``$defs``."""
        self._make = make
        self._noun = noun
        self._extra = extra

    def schema(self) -> dict[str, Any]:
        return {"$ref": f"#/$defs/{self.ref}"} if self.ref is not None else self.body()

    def body(self) -> dict[str, Any]:
        """The schema itself, whether or not it is referred to."""
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {member.name: member.schema() for member in self.members.values()},
        }
        required = [member.name for member in self.members.values() if member.required]
        if required:
            schema["required"] = required
        schema["additionalProperties"] = False if self._extra is None else self._extra.schema()
        return schema

    def fields(self, value: Mapping[str, object], where: str, reading: Reading) -> dict[str, Any]:
        """The fields that were given, read."""
        result: dict[str, Any] = {}
        prefix = f"{where}." if where else ""
        for key, item in value.items():
            member = self.members.get(key)
            kind = member.kind if member is not None else self._extra
            if kind is None:
                near = nearest(str(key), [name for name in self.members if name not in value])
                hint = f"; did you mean {near!r}?" if near else f"; known: {', '.join(self.members) or 'none'}"
                reading.problems.append(f"{prefix}{key}: unknown {self._noun}{hint}")
            else:
                result[key] = kind.read(item, f"{prefix}{key}", reading)
        for name, member in self.members.items():
            if member.required and name not in value:
                reading.problems.append(f"{prefix}{name}: missing; expected {member.kind.expected}")
        return result

    def read(self, value: object, where: str, reading: Reading) -> Any:
        if not isinstance(value, dict):
            reading.wrong(where, self.expected, value)
            return None
        before = len(reading.problems)
        fields = self.fields(cast("dict[str, object]", value), where, reading)
        if len(reading.problems) > before:
            return None
        try:
            return self._make(**fields)
        except (ValueError, TypeError) as error:  # the author's own check in __post_init__
            reading.problems.append(f"{where}: {error}")
            return None
