"""What the server answers, read into typed objects."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast, get_args

from agent_env.errors import Failure, FailureKind, ServerError
from agent_env.plugin.tools import ToolResult, ToolSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

_KINDS = frozenset(get_args(FailureKind))


@dataclass(frozen=True, slots=True)
class ToolReply:
    """The answer to a tool call; exactly one of ``result``, ``error_type`` and ``failure`` is set.

    Attributes:
        result: what the tool answered.
        error_type: why there was no call: ``tool_not_found``, ``invalid_args``, ``execution_error``, …: the model's
            own mistake, to be answered and played on.
        message: words for the error.
        failure: the env failed; the episode is over.
        timings: seconds by part of an episode that is over, as in `TurnReply`.
    """

    result: ToolResult | None
    error_type: str | None = None
    message: str | None = None
    failure: Failure | None = None
    timings: dict[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True)
class TurnReply:
    """The answer to a reset or to a turn's end.

    Attributes:
        done: the episode is over.
        prompt: the open turn's prompt, `None` when done.
        system_prompt: the open turn's system prompt, `None` without one.
        task: id, name, split and index of the task.
        reward: the reward of a scored episode, `None` otherwise.
        scores: by id of the scoring step.
        failure: why the episode has no reward.
        timings: seconds by part: ``deploy_s``, ``tools_s``, ``verifier_s``.
    """

    done: bool
    prompt: str | None = None
    system_prompt: str | None = None
    task: dict[str, Any] = field(default_factory=dict[str, Any])
    reward: float | None = None
    scores: dict[str, float] = field(default_factory=dict[str, float])
    failure: Failure | None = None
    timings: dict[str, float] = field(default_factory=dict[str, float])


def table(value: object) -> dict[str, Any]:
    """``value`` if it is a JSON object, else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _numbers(value: object) -> dict[str, float]:
    return {key: number for key, item in table(value).items() if (number := _number(item)) is not None}


def _metadata(data: Mapping[str, Any]) -> dict[str, Any]:
    """A reply's metadata: beside the observation, or inside it."""
    return table(data.get("metadata")) or table(table(data.get("observation")).get("metadata"))


def _failure(data: Mapping[str, Any]) -> Failure | None:
    metadata = _metadata(data)
    failure = table(table(metadata.get("agentenv")).get("failure"))
    if failure:
        kind = failure.get("kind")
        return Failure(
            kind=cast("FailureKind", kind) if kind in _KINDS else "server",
            message=str(failure.get("message", "")),
            retryable=failure.get("retryable") is True,
        )
    if metadata.get("status") == "error":
        return Failure("env", str(metadata.get("error", "the server says no more")))
    return None


def _result(value: object) -> ToolResult:
    fields = table(value)
    content = fields.get("content")
    parts = [table(part) for part in cast("list[object]", content)] if isinstance(content, list) else []
    if not parts and value is not None and "content" not in fields:  # a stock server's own observation
        parts = [{"type": "text", "text": str(value)}]
    return ToolResult(
        content=parts,
        structured=fields.get("structured_content"),
        is_error=fields.get("is_error") is True,
        meta=table(fields.get("meta")) or None,
    )


def tool_reply(data: Mapping[str, Any]) -> ToolReply:
    """The reply to a tool call."""
    failure = _failure(data)
    if failure is not None:
        timings = _numbers(table(_metadata(data).get("agentenv")).get("timings"))
        return ToolReply(result=None, failure=failure, timings=timings)
    observation = table(data.get("observation"))
    error = table(observation.get("error"))
    if error:
        kind = _text(error.get("error_type")) or "execution_error"
        return ToolReply(result=None, error_type=kind, message=str(error.get("message", "")))
    return ToolReply(result=_result(observation.get("result")))


def turn_reply(data: Mapping[str, Any]) -> TurnReply:
    """The reply to a reset or a turn's end.

    Raises:
        ServerError: there was no turn to end.
    """
    metadata = _metadata(data)
    observation = table(data.get("observation"))
    task = table(metadata.get("task"))
    timings = _numbers(table(metadata.get("agentenv")).get("timings"))
    failure = _failure(data)
    if failure is not None:
        return TurnReply(done=True, task=task, failure=failure, timings=timings)
    error = table(observation.get("error"))
    if error:
        raise ServerError(str(error.get("message", "the turn could not be ended")), code=_text(error.get("error_type")))
    if data.get("done") is True:
        reward = _number(data.get("reward"))
        if reward is None:
            failure = Failure("no_reward", "the server ended the episode without a finite reward")
        scores = _numbers(metadata.get("scores"))
        return TurnReply(done=True, task=task, reward=reward, scores=scores, failure=failure, timings=timings)
    opened = table(table(observation.get("result")).get("data")) or metadata
    return TurnReply(
        done=False,
        prompt=_text(opened.get("prompt")),
        system_prompt=_text(opened.get("system_prompt")),
        task=task,
        timings=timings,
    )


def tool_specs(data: Mapping[str, Any]) -> list[ToolSpec]:
    """The tools of a ``list_tools`` reply.

    Raises:
        ServerError: it holds no list of tools.
    """
    tools = table(data.get("observation")).get("tools")
    if not isinstance(tools, list):
        raise ServerError("the server answered list_tools without a list of tools")
    specs: list[ToolSpec] = []
    for item in cast("list[object]", tools):
        fields = table(item)
        name = fields.get("name")
        if not isinstance(name, str):
            raise ServerError("the server listed a tool without a name")
        schema = table(fields.get("input_schema"))
        specs.append(ToolSpec(name=name, description=str(fields.get("description") or ""), input_schema=schema))
    return specs
