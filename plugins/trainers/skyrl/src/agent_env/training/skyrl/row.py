"""What the environment reads of a row's extras."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from agent_env.errors import UsageError
from agent_env.training.skyrl.rows import PARSER

if TYPE_CHECKING:
    from collections.abc import Mapping

_NO_ROW = "the environment's extras have no {}: write the rows with `agentenv rows skyrl`"


@dataclass(frozen=True, slots=True)
class Row:
    """A row's task and settings; times in seconds.

    Attributes:
        url: address of the bundle's server.
        split: split of the task.
        index: its place in the split.
        seed: for a task with a ``<seed>`` placeholder, when the row's author gave one.
        task_id: for messages.
        tools: OpenAI function schemas.
        token: the value of the variable that the row names; kept out of the representation.
        parser: name of the parser of the model's calls.
        max_turns: replies of the model; the generator's ``max_turns`` where there is one.
        tool_timeout: one tool call.
        reset_timeout: getting an episode; also each end of a turn.
        model_timeout: one reply of the model.
    """

    url: str
    split: str
    index: int
    seed: int | None
    task_id: str
    tools: tuple[dict[str, Any], ...]
    token: str | None
    parser: str
    max_turns: int
    tool_timeout: float
    reset_timeout: float
    model_timeout: float

    def __repr__(self) -> str:
        return f"Row({self.task_id!r}, {self.split!r}, {self.index}, {self.url!r})"


def read_row(extras: Mapping[str, Any]) -> Row:
    """Read a row's extras.

    Raises:
        UsageError: something is missing or of the wrong type; the message names it.
    """
    own = _json(extras, "agentenv")
    if not isinstance(own, dict):
        raise UsageError(_NO_ROW.format("'agentenv'"))
    settings = cast("dict[str, Any]", own)
    turns = extras if extras.get("max_turns") is not None else settings
    return Row(
        url=_text(settings, "url"),
        split=_text(extras, "split"),
        index=_count(extras, "index", least=0),
        seed=None if extras.get("seed") is None else _count(extras, "seed", least=0),
        task_id=str(extras.get("task_id") or ""),
        tools=_tools(_json(extras, "tools")),
        token=_token(settings.get("token_var")),
        parser=str(settings.get("parser") or PARSER),
        max_turns=_count(turns, "max_turns", least=1, default=4),
        tool_timeout=_seconds(settings, "tool_timeout", 60.0),
        reset_timeout=_seconds(settings, "reset_timeout", 600.0),
        model_timeout=_seconds(settings, "model_timeout", 600.0),
    )


def _json(fields: Mapping[str, Any], key: str) -> object:
    value = fields.get(key)
    if not isinstance(value, str):
        raise UsageError(_NO_ROW.format(f"{key!r} as JSON text"))
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the extra {key!r} is not valid JSON: {error}") from error


def _text(fields: Mapping[str, Any], key: str) -> str:
    value = fields.get(key)
    if not isinstance(value, str) or not value:
        raise UsageError(f"the row needs {key!r} as a text, got {value!r}")
    return value


def _count(fields: Mapping[str, Any], key: str, *, least: int, default: int | None = None) -> int:
    value: object = fields.get(key, default)
    # Data loaders turn integers into floats in columns that have gaps.
    if isinstance(value, float) and value.is_integer():
        value = int(value)
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
    raise UsageError("the row needs 'tools' as the JSON text of a list of function schemas")


def _token(name: object) -> str | None:
    if name is None:
        return None
    token = os.environ.get(name) if isinstance(name, str) and name else None
    if not token:
        raise UsageError(
            f"the row asks for the server's token in the environment variable {name}, which is not set where the "
            "generator runs: set it for SkyRL's Ray workers too (runtime_env env_vars)"
        )
    return token
