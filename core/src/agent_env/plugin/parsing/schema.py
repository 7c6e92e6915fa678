"""Values of tagged formats, decoded as the tool's schema says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from agent_env.plugin.parsing.jsonvalue import NotJson, decode_json

_ALIASES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean", "dict": "object", "list": "array"}
_KNOWN = frozenset({"string", "integer", "number", "boolean", "object", "array"})
_MAX_REFS = 16
_MAX_BRANCHES = 64
_BOOLEANS = {"true": True, "True": True, "false": False, "False": False}


class ParameterType(NamedTuple):
    """What a schema says about a parameter.

    Attributes:
        types: JSON types without null; empty when the schema says none.
        nullable: whether null is allowed.
    """

    types: tuple[str, ...]
    nullable: bool


_ONLY: dict[str, ParameterType] = {kind: ParameterType((kind,), False) for kind in _KNOWN}


def parameter_type(schema: Mapping[str, Any], name: str) -> ParameterType:
    """The types of the parameter ``name`` in the schema of a tool's arguments."""
    properties = _mapping(schema.get("properties"))
    plain: object = properties.get(name)
    if type(plain) is dict:
        kind = cast("dict[str, object]", plain).get("type")
        only = _ONLY.get(kind) if isinstance(kind, str) else None
        if only is not None and "nullable" not in plain:
            return only
    found: dict[str, None] = {}
    unknown = _collect(properties.get(name), schema, found, [_MAX_BRANCHES])
    nullable = found.pop("null", 0) is None
    types = () if unknown else tuple(found)
    if nullable and not types and not unknown:
        types = ("null",)
    return ParameterType(types, nullable)


def decode_value(schema: Mapping[str, Any], name: str, text: str) -> tuple[Any, bool]:
    """The value of a parameter and whether it fits its type; what does not fit stays text.

    Args:
        schema: schema of the tool's arguments; empty when the tool is unknown.
        name: the parameter.
        text: the value as it is written.
    """
    types, nullable = parameter_type(schema, name)
    bare = text.strip()
    if nullable and (text if "string" in types else bare) in {"null", "None"}:
        return None, True
    if types == ("string",):
        return text, True
    if not types or "string" in types:
        wanted = types or ("object", "array")
        if bare[:1] in {"{", "["}:
            value, fits = _decode(bare)
            if fits and (_fits(value, "object") or _fits(value, "array")) and any(_fits(value, t) for t in wanted):
                return value, True
        return text, True
    if "boolean" in types and bare in _BOOLEANS:
        return _BOOLEANS[bare], True
    value, fits = _decode(bare)
    if fits:
        for kind in types:
            if _fits(value, kind):
                return (int(value) if kind == "integer" else value), True
    return text, False


def decode_json_value(schema: Mapping[str, Any], name: str, text: str) -> tuple[Any, bool]:
    """The value of a parameter that is marked as JSON, and whether it decodes; booleans and null also as in Python."""
    bare = text.strip()
    if bare in _BOOLEANS:
        return _BOOLEANS[bare], True
    if bare == "None":
        types, nullable = parameter_type(schema, name)
        return (None, True) if nullable or not types else (text, False)
    value, fits = _decode(bare)
    return (value, True) if fits else (text, False)


def _decode(text: str) -> tuple[Any, bool]:
    try:
        return decode_json(text)
    except NotJson:
        return None, False


def _fits(value: object, kind: str) -> bool:
    match kind:
        case "integer":
            return not isinstance(value, bool) and (
                isinstance(value, int) or (isinstance(value, float) and value.is_integer())
            )
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "boolean":
            return isinstance(value, bool)
        case "object":
            return isinstance(value, dict)
        case "array":
            return isinstance(value, list)
        case "string":
            return isinstance(value, str)
        case _:
            return False


def _collect(node: object, root: Mapping[str, Any], found: dict[str, None], left: list[int]) -> bool:
    """Add the types that a schema allows; True when a part of it says none."""
    fields = _resolve(node, root)
    left[0] -= 1
    if left[0] < 0:
        return True
    if fields.get("nullable") is True:
        found["null"] = None
    kinds = fields.get("type")
    if kinds is not None:
        unknown = False
        for listed in cast("list[object]", kinds) if isinstance(kinds, list) else [kinds]:
            kind = _ALIASES.get(listed, listed) if isinstance(listed, str) else None
            if kind == "null" or kind in _KNOWN:
                found[str(kind)] = None
            else:
                unknown = True
        return unknown or not found
    for key in ("anyOf", "oneOf", "allOf"):
        branches = fields.get(key)
        if isinstance(branches, list) and branches:
            results = [_collect(branch, root, found, left) for branch in cast("list[object]", branches)]
            return all(results) if key == "allOf" else any(results)
    if "const" in fields and fields["const"] is None:
        found["null"] = None
        return False
    return True


def _resolve(node: object, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Follow ``$ref`` inside the same schema."""
    fields = _mapping(node)
    for _ in range(_MAX_REFS):
        reference = fields.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/"):
            break
        target: object = root
        for part in reference[2:].split("/"):
            target = _mapping(target).get(part.replace("~1", "/").replace("~0", "~"))
        fields = _mapping(target)
    return fields


def _mapping(value: object) -> Mapping[str, Any]:
    if type(value) is dict:
        return cast("dict[str, Any]", value)
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
