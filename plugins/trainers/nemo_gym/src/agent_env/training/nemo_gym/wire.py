"""What the agents of NeMo Gym send: a row with ``/seed_session``, a row and the model's response with ``/verify``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from agent_env.errors import UsageError
from agent_env.rollout.arguments import read_arguments
from agent_env.rollout.fields import Fields
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
    row = Fields(body, mend="write rows with `agentenv rows nemo-gym`")
    own = row.inner("agentenv", body.get("agentenv"), owner="the row's 'agentenv'")
    return Row(
        split=own.text("split"),
        index=own.count("index"),
        seed=own.optional_count("seed"),
        token_var=own.optional_text("token_var"),
        tool_timeout=own.seconds("tool_timeout", 60.0),
        reset_timeout=own.seconds("reset_timeout", 600.0),
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
