"""What `run` reads of a row's metadata."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Any, cast

from agent_env.errors import UsageError

_NO_ROW = "the sample has no {}: write rows with `python -m agent_env.training.miles` and pass --metadata-key metadata"


@dataclass(frozen=True, slots=True)
class Row:
    """A row's task and settings.

    Attributes:
        url: address of the bundle's server.
        split: split of the task.
        index: its place in the split.
        seed: for a task with a ``<seed>`` placeholder, when the row's author gave one.
        task_id: for messages.
        tools: OpenAI function schemas.
        token: the value of the variable that the row names; kept out of the representation.
        max_turns: replies of the model.
        tool_timeout: seconds.
        reset_timeout: seconds.
        model_timeout: seconds.
        max_seq_len: as Miles passes it.
        parser: name of one of our parsers.
    """

    url: str
    split: str
    index: int
    seed: int | None
    task_id: str
    tools: tuple[dict[str, Any], ...]
    token: str | None
    max_turns: int
    tool_timeout: float
    reset_timeout: float
    model_timeout: float
    max_seq_len: int | None
    parser: str | None

    def __repr__(self) -> str:
        return f"Row({self.task_id!r}, {self.split!r}, {self.index}, {self.url!r})"


def read_row(metadata: object) -> Row:
    """Read a row's metadata.

    Raises:
        UsageError: something is missing or of the wrong type; the message names it.
    """
    if not isinstance(metadata, dict):
        raise UsageError(_NO_ROW.format("metadata"))
    fields = cast("dict[str, Any]", metadata)
    settings = fields.get("agentenv")
    if not isinstance(settings, dict):
        raise UsageError(_NO_ROW.format("`agentenv` in its metadata"))
    own = cast("dict[str, Any]", settings)
    token_var = own.get("token_var")
    return Row(
        url=_text(own, "url"),
        split=_text(fields, "split"),
        index=_count(fields, "index", least=0),
        seed=None if fields.get("seed") is None else _count(fields, "seed", least=0),
        task_id=str(fields.get("task_id") or ""),
        tools=_tools(fields.get("tools")),
        token=None if token_var is None else _token(token_var),
        max_turns=_count(own, "max_turns", least=1, default=4),
        tool_timeout=_seconds(own, "tool_timeout", 60.0),
        reset_timeout=_seconds(own, "reset_timeout", 600.0),
        model_timeout=_seconds(own, "model_timeout", 600.0),
        max_seq_len=None if fields.get("max_seq_len") is None else _count(fields, "max_seq_len", least=1),
        parser=None if own.get("parser") is None else _text(own, "parser"),
    )


def _text(fields: dict[str, Any], key: str) -> str:
    value = fields.get(key)
    if not isinstance(value, str) or not value:
        raise UsageError(f"the row's metadata needs {key!r} as a text, got {value!r}")
    return value


def _count(fields: dict[str, Any], key: str, *, least: int, default: int | None = None) -> int:
    value = fields.get(key, default)
    # Data loaders turn integers into floats in columns that have gaps.
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise UsageError(f"the row's metadata needs {key!r} as a whole number from {least} on, got {value!r}")
    return value


def _seconds(fields: dict[str, Any], key: str, default: float) -> float:
    value = fields.get(key, default)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            seconds = float(value)
        except OverflowError:
            seconds = math.inf
        if 0 < seconds < math.inf:
            return seconds
    raise UsageError(f"the row's metadata needs {key!r} as seconds above 0, got {value!r}")


def _tools(value: object) -> tuple[dict[str, Any], ...]:
    if isinstance(value, list):
        items = cast("list[object]", value)
        if all(isinstance(item, dict) for item in items):
            return tuple(cast("list[dict[str, Any]]", items))
    raise UsageError(
        "the row's metadata needs 'tools' as a list of function schemas: is --tool-key set to another column?"
    )


def _token(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise UsageError(f"the row's 'token_var' must name an environment variable, got {name!r}")
    token = os.environ.get(name)
    if not token:
        raise UsageError(
            f"the row asks for the server's token in the environment variable {name}, which is not set where the "
            "rollout runs: set it for the trainer's workers too (Ray: runtime_env env_vars)"
        )
    return token
