"""Python values as JSON values."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any, cast


def to_json(value: object) -> Any:
    """The JSON value of what an env's code returned.

    Dataclasses, enums, tuples, sets, dates, UUIDs, decimals and pydantic models have one.

    Raises:
        TypeError: it has none.
    """
    match value:
        case enum.Enum():
            return to_json(value.value)
        case None | bool() | int() | float() | str():
            return value
        case dict():
            return {_key(key): to_json(item) for key, item in cast("dict[object, object]", value).items()}
        case list() | tuple() | set() | frozenset():
            return [to_json(item) for item in cast("list[object]", value)]
        case _:
            return _object(value)


def _key(key: object) -> str:
    if isinstance(key, enum.Enum):
        key = key.value
    if isinstance(key, str):
        return key
    if key is None or isinstance(key, bool | int | float):
        return str(key)
    raise TypeError(f"a key of a JSON object is a string, not {type(key).__name__}")


def _object(value: object) -> Any:
    cls = type(value)
    if dataclasses.is_dataclass(value):
        return {field.name: to_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    dump = getattr(value, "model_dump", None)
    if dump is not None:
        return dump(mode="json")
    if cls.__module__ == "datetime" and hasattr(value, "isoformat"):
        return cast("Any", value).isoformat()
    if (cls.__module__, cls.__name__) in {("uuid", "UUID"), ("decimal", "Decimal")}:
        return str(value)
    item = getattr(value, "tolist", None)  # numpy scalars and arrays, without importing numpy
    if cls.__module__.split(".")[0] == "numpy" and item is not None:
        return to_json(item())
    raise TypeError(f"{cls.__name__} has no JSON form")


def jsonable(value: object, otherwise: Any) -> Any:
    """The JSON value, or ``otherwise`` where there is none."""
    try:
        return to_json(value)
    except TypeError:
        return otherwise
