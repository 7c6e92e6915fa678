"""Reading what a client sends.

The checks are written out instead of given to pydantic: this is the hot path, and a model's mistake (arguments that
are no object) must be told from a client's (a message of the wrong form).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from agent_env.openenv.server.frames import BadMessage, Refused
from agent_env.openenv.wire import END_TURN, MAX_EPISODE_ID, TOOL_TIMEOUT_S, TURN_TIMEOUT_S, read_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

_RESET_KEYS: Final = ("split", "index", "seed", "episode_id", "timeout_s", "metadata")
_CALL_KEYS: Final = frozenset({"type", "tool_name", "arguments", "metadata"})
_ENVELOPE: Final = {
    "reset": frozenset({"type", "data"}),
    "step": frozenset({"type", "data"}),
    "mcp": frozenset({"type", "data"}),
    "state": frozenset({"type"}),
    "close": frozenset({"type"}),
}


@dataclass(frozen=True, slots=True)
class Reset:
    """Begin an episode. ``split`` and ``index`` come together; without them the first task is played."""

    split: str | None = None
    index: int | None = None
    seed: int | None = None
    episode_id: str | None = None
    timeout_s: float = TURN_TIMEOUT_S


@dataclass(frozen=True, slots=True)
class ListTools:
    """List the tools."""


@dataclass(frozen=True, slots=True)
class CallTool:
    """Call a tool, or end the turn."""

    name: str
    arguments: Any
    timeout_s: float
    invalid_calls: int = 0
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class GetState:
    """Ask for the state."""


@dataclass(frozen=True, slots=True)
class CloseSession:
    """End the session."""


@dataclass(frozen=True, slots=True)
class Rpc:
    """A JSON-RPC request inside a frame."""

    data: dict[str, Any]


Request = Reset | ListTools | CallTool | GetState | CloseSession | Rpc
_LIST, _STATE, _CLOSE = ListTools(), GetState(), CloseSession()


def flaw(kind: str, message: str, *loc: str | int, value: object = None) -> dict[str, Any]:
    """One entry of ``errors`` in the shape of stock servers; long or nested values are not echoed."""
    shown = value if isinstance(value, int | float | bool) or (isinstance(value, str) and len(value) < 200) else None
    if isinstance(shown, float) and not math.isfinite(shown):
        shown = None
    return {"type": kind, "loc": list(loc), "msg": message, "input": shown}


def read_frame(text: str) -> Request:
    """The request in a text frame.

    Raises:
        Refused: with ``INVALID_JSON``, ``UNKNOWN_TYPE`` or ``VALIDATION_ERROR``.
    """
    try:
        loaded = read_json(text)
    except ValueError as error:
        raise Refused(f"Invalid JSON: {error}", "INVALID_JSON") from None
    if not isinstance(loaded, dict):
        raise BadMessage(flaw("model_type", "Input should be an object", value=loaded))
    message = cast("dict[str, Any]", loaded)
    kind = message.get("type", "")
    allowed = _ENVELOPE.get(kind) if isinstance(kind, str) else None
    if allowed is None:
        raise Refused(f"Unknown message type: {str(kind)[:200]}", "UNKNOWN_TYPE")
    if not allowed >= message.keys():
        raise BadMessage(*_extras(message, allowed))
    if kind == "step":
        return read_action(_object(message, "data"))
    if kind == "reset":
        return read_reset(_object(message, "data") if "data" in message else {})
    if kind == "mcp":
        return Rpc(_object(message, "data"))
    return _STATE if kind == "state" else _CLOSE


def read_action(data: dict[str, Any], *, timeout_s: float | None = None) -> ListTools | CallTool:
    """The action of a step.

    Args:
        data: the action.
        timeout_s: deadline given beside the action, as the HTTP step has it.
    """
    kind = data.get("type", "call_tool")
    if kind == "list_tools":
        if not {"type", "metadata"} >= data.keys():
            raise BadMessage(*_extras(data, {"type", "metadata"}))
        return _LIST
    if kind != "call_tool":
        raise BadMessage(flaw("literal_error", "Input should be 'call_tool' or 'list_tools'", "type", value=kind))
    if not data.keys() <= _CALL_KEYS:
        raise BadMessage(*_extras(data, _CALL_KEYS))
    name = data.get("tool_name")
    if not isinstance(name, str):
        raise BadMessage(
            flaw("string_type", "Input should be a valid string", "tool_name", value=name)
            if "tool_name" in data
            else flaw("missing", "Field required", "tool_name")
        )
    metadata = data.get("metadata")
    notes = _notes(metadata) if metadata else None
    if notes is None:
        default = TURN_TIMEOUT_S if name == END_TURN else TOOL_TIMEOUT_S
        return CallTool(name, data.get("arguments", {}), timeout_s or default)
    limit = _seconds(notes, "metadata", "agentenv", "timeout_s")
    calls = notes.get("invalid_calls", 0)
    if isinstance(calls, bool) or not isinstance(calls, int) or calls < 0:
        where = ("metadata", "agentenv", "invalid_calls")
        raise BadMessage(flaw("int_type", "Input should be a number of calls", *where, value=calls))
    truncated = notes.get("truncated", False)
    if not isinstance(truncated, bool):
        where = ("metadata", "agentenv", "truncated")
        raise BadMessage(flaw("bool_type", "Input should be true or false", *where, value=truncated))
    default = TURN_TIMEOUT_S if name == END_TURN else TOOL_TIMEOUT_S
    return CallTool(name, data.get("arguments", {}), limit or timeout_s or default, calls, truncated)


def read_reset(data: dict[str, Any]) -> Reset:
    """The arguments of a reset; what is `None` counts as absent."""
    given = {key: value for key, value in data.items() if value is not None}
    unknown = given.keys() - set(_RESET_KEYS)
    if unknown:
        known = ", ".join(_RESET_KEYS[:-1])
        raise BadMessage(
            *(flaw("extra_forbidden", f"Unknown argument; a reset takes {known}", key) for key in sorted(unknown))
        )
    split, index = given.get("split"), _integer(given, "index")
    if split is not None and not isinstance(split, str):
        raise BadMessage(flaw("string_type", "Input should be a valid string", "split", value=split))
    if (split is None) != (index is None):
        missing = "index" if index is None else "split"
        raise BadMessage(flaw("missing", "split and index name a task together; give both or neither", missing))
    episode_id = given.get("episode_id")
    if episode_id is not None and not (
        isinstance(episode_id, str) and 0 < len(episode_id) <= MAX_EPISODE_ID and episode_id.isprintable()
    ):
        words = f"Input should be a string of 1 to {MAX_EPISODE_ID} printable characters"
        raise BadMessage(flaw("string_type", words, "episode_id", value=episode_id))
    limit = _seconds(given, "timeout_s")
    return Reset(split, index, _integer(given, "seed"), episode_id, limit or TURN_TIMEOUT_S)


def _object(message: dict[str, Any], key: str) -> dict[str, Any]:
    if key not in message:
        raise BadMessage(flaw("missing", "Field required", key))
    value = message[key]
    if not isinstance(value, dict):
        raise BadMessage(flaw("dict_type", "Input should be a valid dictionary", key, value=value))
    return cast("dict[str, Any]", value)


def _extras(fields: dict[str, Any], known: AbstractSet[str]) -> Iterator[dict[str, Any]]:
    words = f"Extra inputs are not permitted; known: {', '.join(sorted(known))}"
    for key in sorted(fields.keys() - known):
        yield flaw("extra_forbidden", words, key, value=fields[key])


def _notes(metadata: object) -> dict[str, Any] | None:
    """``metadata.agentenv``; other metadata is the client's own."""
    if not isinstance(metadata, dict):
        raise BadMessage(flaw("dict_type", "Input should be a valid dictionary", "metadata", value=metadata))
    notes = cast("dict[str, Any]", metadata).get("agentenv")
    if notes is None:
        return None
    if not isinstance(notes, dict):
        raise BadMessage(flaw("dict_type", "Input should be a valid dictionary", "metadata", "agentenv", value=notes))
    return cast("dict[str, Any]", notes)


def _seconds(fields: dict[str, Any], *loc: str) -> float | None:
    value = fields.get(loc[-1])
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
        raise BadMessage(flaw("greater_than", "Input should be a positive number of seconds", *loc, value=value))
    return float(value)


def _integer(fields: dict[str, Any], key: str) -> int | None:
    value = fields.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise BadMessage(flaw("int_type", "Input should be an integer, 0 or more", key, value=value))
    return value
