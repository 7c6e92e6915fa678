"""A tool as a Python method that TRL takes for one: named, typed and documented as the tool's schema says."""

from __future__ import annotations

import inspect
import keyword
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from agent_env.errors import UsageError
from agent_env.training.trl.hints import hint_of
from agent_env.training.trl.tooltext import docstring, is_auto_title, parameter_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED: Final = frozenset({"reset", "get_reward"})


@dataclass(frozen=True, slots=True)
class ToolMethod:
    """A tool's method.

    Attributes:
        attribute: name of the method on the class.
        tool: name of the tool; the model reads this one, from the function's ``__name__``.
        aliases: the tool's parameters by the name that the model sees, where it is another.
        function: ``function(self, **arguments) -> str``.
    """

    attribute: str
    tool: str
    aliases: Mapping[str, str]
    function: Callable[..., str]


def tool_methods(tools: Sequence[Mapping[str, Any]], play: Callable[..., str]) -> list[ToolMethod]:
    """A method for each tool.

    Args:
        tools: OpenAI function schemas.
        play: called as ``play(self, tool, arguments)``.

    Raises:
        UsageError: a tool cannot be a method; it is named.
    """
    methods: list[ToolMethod] = []
    taken = set(_RESERVED)
    for tool in tools:
        function = cast("Mapping[str, Any]", tool.get("function") or {})
        name = function.get("name")
        if not isinstance(name, str) or not name.strip():
            raise UsageError(f"a tool without a name cannot be offered to TRL: {dict(function)!r}")
        attribute = _attribute(name, taken)
        taken.add(attribute)
        methods.append(_method(attribute, name, function, play))
    return methods


def _method(attribute: str, tool: str, function: Mapping[str, Any], play: Callable[..., str]) -> ToolMethod:
    schema: object = function.get("parameters") or {"type": "object"}
    if not isinstance(schema, dict):
        raise UsageError(f"tool {tool!r}: the schema of its arguments is no JSON object")
    fields = cast("dict[str, Any]", schema)
    properties: object = fields.get("properties") or {}
    if not isinstance(properties, dict) or fields.get("type", "object") != "object":
        raise UsageError(f"tool {tool!r}: its arguments must be one JSON object with named properties")
    named = cast("dict[str, Any]", properties)
    required = set(cast("list[str]", fields.get("required") or ()))
    rules = {key: value for key, value in fields.items() if key not in {"type", "properties", "required"}}
    if is_auto_title(f"{tool}Arguments", rules.get("title")) or is_auto_title(tool, rules.get("title")):
        del rules["title"]
    if missing := sorted(required - set(named)):
        rules["required"] = missing
    shown = _shown_names(named)
    parameters: list[inspect.Parameter] = []
    texts: list[tuple[str, str]] = []
    for name, about in named.items():
        hint, left = hint_of(about)
        described = cast("dict[str, Any]", about).get("description") if isinstance(about, dict) else None
        called = shown[name]
        alias = None if called == name else called
        texts.append((called, parameter_text(name, str(described or ""), left, called=alias)))
        parameters.append(
            inspect.Parameter(
                called,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if name in required else None,
                annotation=hint,
            )
        )
    aliases = {called: name for name, called in shown.items() if called != name}

    def method(_self: Any, /, **arguments: Any) -> str:
        return play(_self, tool, {aliases.get(key, key): value for key, value in arguments.items()})

    method.__name__ = tool
    method.__qualname__ = f"BundleEnvironment.{attribute}"
    method.__doc__ = docstring(str(function.get("description") or ""), rules, texts)
    method.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    itself = inspect.Parameter("_self", inspect.Parameter.POSITIONAL_ONLY)
    method.__signature__ = inspect.Signature([itself, *parameters])  # type: ignore[attr-defined]
    return ToolMethod(attribute, tool, aliases, method)


def _shown_names(properties: Mapping[str, Any]) -> dict[str, str]:
    """For each parameter the name that the model sees: its own where Python and the docstring format allow it."""
    shown = {name: name for name in properties if _usable(name)}
    taken = set(shown.values())
    for name in properties:
        if name in shown:
            continue
        alias = re.sub(r"[^A-Za-z0-9_]", "_", name) or "argument"
        if alias[0].isdigit():
            alias = f"_{alias}"
        while alias in taken or not _usable(alias):
            alias += "_"
        taken.add(alias)
        shown[name] = alias
    return shown


def _usable(name: str) -> bool:
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        return False
    # ``_self`` would be a second parameter of that name; the others end a section of the docstring.
    return name != "_self" and not name.endswith(("Args", "Returns", "Raises"))


def _attribute(tool: str, taken: set[str]) -> str:
    """A public attribute for a tool: names with an underscore are hidden by TRL, two names are its own."""
    name = tool
    if not _NAME.fullmatch(tool) or tool.startswith("_") or tool in taken:
        name = "tool_" + (re.sub(r"[^A-Za-z0-9_]", "_", tool).strip("_") or "x")
    while name in taken:
        name += "_"
    return name
