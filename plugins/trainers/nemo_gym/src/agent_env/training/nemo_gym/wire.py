"""What the agents of NeMo Gym send: a row with ``/seed_session``, a row and the model's response with ``/verify``."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from agent_env.errors import UsageError
from agent_env.rollout.arguments import read_arguments
from agent_env.rollout.text import plain_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Row:
    """The part of a row that is about us.

    Attributes:
        split: split of the task.
        index: place of the task in the split.
        seed: for a task with a ``<seed>`` placeholder.
        token_var: variable of the token that the server was written with.
        tool_timeout: seconds of one tool call.
        reset_timeout: seconds of getting an episode, and of the end of each turn.
        tools: what the model is offered, as OpenAI function schemas; `None` when the row does not say.
    """

    split: str
    index: int
    seed: int | None
    token_var: str | None
    tool_timeout: float
    reset_timeout: float
    tools: Sequence[Mapping[str, Any]] | None


@dataclass(frozen=True, slots=True)
class Ending:
    """How the model left the episode: its last words, calls that were no JSON object, and whether it was cut off."""

    response: str
    invalid_calls: int
    truncated: bool


def read_object(raw: bytes) -> dict[str, Any]:
    """The JSON object of a request.

    Raises:
        UsageError: it is none.
    """
    try:
        value: object = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the body is not valid JSON: {str(error)[:200]}") from None
    if not isinstance(value, dict):
        raise UsageError("the body is no JSON object")
    return cast("dict[str, Any]", value)


def read_row(body: Mapping[str, Any]) -> Row:
    """The row of a request.

    Raises:
        UsageError: it was not written by ``agentenv rows nemo-gym``.
    """
    own: object = body.get("agentenv")
    if not isinstance(own, dict):
        raise UsageError("the row has no object 'agentenv': write rows with `agentenv rows nemo-gym`")
    fields = cast("dict[str, Any]", own)
    split, index, seed, token_var = (fields.get(key) for key in ("split", "index", "seed", "token_var"))
    if not isinstance(split, str):
        raise UsageError(f"agentenv.split must be a string, got {split!r}")
    if not _is_int(index):
        raise UsageError(f"agentenv.index must be an integer, got {index!r}")
    if seed is not None and not _is_int(seed):
        raise UsageError(f"agentenv.seed must be an integer, got {seed!r}")
    if token_var is not None and not isinstance(token_var, str):
        raise UsageError("agentenv.token_var must be the name of an environment variable")
    return Row(
        split=split,
        index=cast("int", index),
        seed=cast("int | None", seed),
        token_var=token_var,
        tool_timeout=_seconds(fields, "tool_timeout", 60.0),
        reset_timeout=_seconds(fields, "reset_timeout", 600.0),
        tools=_tools(body),
    )


def read_ending(response: object) -> Ending:
    """The ending of a rollout, read off the response of NeMo Gym's agent, whose output holds all replies and answers.

    Raises:
        UsageError: it is no response.
    """
    fields = cast("dict[str, Any]", response) if isinstance(response, dict) else {}
    output: object = fields.get("output")
    if not isinstance(output, list):
        raise UsageError("the request holds no response with an output")
    items = [cast("dict[str, Any]", item) for item in cast("list[object]", output) if isinstance(item, dict)]
    kinds = [item.get("type", "message") for item in items]
    invalid = sum(
        kind == "function_call" and read_arguments(item.get("arguments")).value is None
        for kind, item in zip(kinds, items, strict=True)
    )
    said = [
        plain_text(item.get("content"))
        for kind, item in zip(kinds, items, strict=True)
        if kind == "message" and item.get("role", "assistant") == "assistant"
    ]
    # After the answers of the last calls there was no turn, or no room, for another reply.
    cut = fields.get("incomplete_details") is not None or (bool(kinds) and kinds[-1] == "function_call_output")
    return Ending(said[-1] if said else "", invalid, cut)


def _tools(body: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    params: object = body.get("responses_create_params")
    tools: object = cast("dict[str, Any]", params).get("tools") if isinstance(params, dict) else None
    if not isinstance(tools, list):
        return None
    return [{"type": "function", "function": tool} for tool in cast("list[object]", tools) if isinstance(tool, dict)]


def _seconds(fields: Mapping[str, Any], key: str, default: float) -> float:
    value: object = fields.get(key, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value <= 0:
        raise UsageError(f"agentenv.{key} must be seconds above 0, got {value!r}")
    return float(value)


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
