"""What the agent loop reads of a row's columns."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from agent_env.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_NO_ROW = "the row has no column {}: write the rows with `agentenv rows verl`"


@dataclass(frozen=True, slots=True)
class Row:
    """A row's task and settings; times in seconds.

    Attributes:
        prompt: the first messages.
        url: address of the bundle's server.
        split: split of the task.
        index: its place in the split.
        seed: for a task with a ``<seed>`` placeholder, when the row's author gave one.
        task_id: for messages.
        tools: OpenAI function schemas.
        token: the value of the variable that the row names; kept out of the representation.
        parser: name of our parser of the model's calls; `None` = verl's, ``rollout.multi_turn.format``.
        max_turns: replies of the model.
        tool_timeout: one tool call.
        reset_timeout: getting an episode; also each end of a turn.
        model_timeout: one reply of the model.
    """

    prompt: tuple[dict[str, Any], ...]
    url: str
    split: str
    index: int
    seed: int | None
    task_id: str
    tools: tuple[dict[str, Any], ...]
    token: str | None
    parser: str | None
    max_turns: int
    tool_timeout: float
    reset_timeout: float
    model_timeout: float

    def __repr__(self) -> str:
        return f"Row({self.task_id!r}, {self.split!r}, {self.index}, {self.url!r})"


def read_row(columns: Mapping[str, Any], *, prompt_key: str = "raw_prompt") -> Row:
    """Read a row's columns.

    Raises:
        UsageError: something is missing or of the wrong type; the message names it.
    """
    own = _json(columns, "agentenv")
    if not isinstance(own, dict):
        raise UsageError(_NO_ROW.format("'agentenv' that holds an object"))
    fields = cast("dict[str, Any]", own)
    return Row(
        prompt=_prompt(columns.get(prompt_key), prompt_key),
        url=_text(fields, "url"),
        split=_text(fields, "split"),
        index=_count(fields, "index", least=0),
        seed=None if fields.get("seed") is None else _count(fields, "seed", least=0),
        task_id=str(fields.get("task_id") or ""),
        tools=_tools(_json(columns, "agentenv_tools")),
        token=_token(fields.get("token_var")),
        parser=None if fields.get("parser") is None else _text(fields, "parser"),
        max_turns=_count(fields, "max_turns", least=1, default=4),
        tool_timeout=_seconds(fields, "tool_timeout", 60.0),
        reset_timeout=_seconds(fields, "reset_timeout", 600.0),
        model_timeout=_seconds(fields, "model_timeout", 600.0),
    )


def _json(columns: Mapping[str, Any], key: str) -> object:
    value = columns.get(key)
    if not isinstance(value, str):
        raise UsageError(_NO_ROW.format(f"{key!r} of JSON text"))
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the column {key!r} is not valid JSON: {error}") from error


def _prompt(value: object, key: str) -> tuple[dict[str, Any], ...]:
    kind = type(value).__name__
    if kind in {"str", "dict"} or not hasattr(value, "__iter__"):
        raise UsageError(f"the row needs {key!r} as a list of messages, got {kind}")
    messages = list(cast("Iterable[object]", value))
    if not messages or not all(isinstance(message, dict) for message in messages):
        raise UsageError(f"the row needs {key!r} as a list of messages")
    return tuple(dict(cast("dict[str, Any]", message)) for message in messages)


def _text(fields: Mapping[str, Any], key: str) -> str:
    value = fields.get(key)
    if not isinstance(value, str) or not value:
        raise UsageError(f"the row needs {key!r} as a text, got {value!r}")
    return value


def _count(fields: Mapping[str, Any], key: str, *, least: int, default: int | None = None) -> int:
    value: object = fields.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise UsageError(f"the row needs {key!r} as a whole number from {least} on, got {value!r}")
    return value


def _seconds(fields: Mapping[str, Any], key: str, default: float) -> float:
    value: object = fields.get(key, default)
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < math.inf:
        return float(value)
    raise UsageError(f"the row needs {key!r} as seconds above 0, got {value!r}")


def _tools(value: object) -> tuple[dict[str, Any], ...]:
    if isinstance(value, list):
        items = cast("list[object]", value)
        if all(isinstance(item, dict) for item in items):
            return tuple(cast("list[dict[str, Any]]", items))
    raise UsageError("the row needs 'agentenv_tools' as the JSON text of a list of function schemas")


def _token(name: object) -> str | None:
    if name is None:
        return None
    token = os.environ.get(name) if isinstance(name, str) and name else None
    if not token:
        raise UsageError(
            f"the row asks for the server's token in the environment variable {name}, which is not set where the "
            "agent loop runs: set it for verl's Ray workers too (ray_kwargs.ray_init.runtime_env.env_vars)"
        )
    return token
