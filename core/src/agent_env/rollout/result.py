"""How a rollout ended, and the dict that trainers get."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from agent_env.errors import Failure


@dataclass(slots=True)
class Result:
    """A rollout, scored or failed.

    Attributes:
        reward: `None` when it failed.
        scores: by id of the scoring step.
        failure: why there is no reward.
        tool_calls: executed env calls.
        invalid_calls: calls whose arguments were not a JSON object.
        unknown_calls: calls of tools that do not exist.
        unparsed_calls: replies with call markup that the engine did not parse.
        turns: replies of the model.
        truncated: the model's end was forced: ``length``, or no room in the context.
        end_reason: ``end_turn``, ``no_call``, ``max_turns``, ``length``, ``context`` or ``failed``.
        reset_retries: attempts to get an episode beyond the first.
        model_retries: attempts to get a reply beyond the first, over all replies.
        seconds: wall time by part, as the rollout measured it: ``reset``, ``model``, ``tools``, ``end``, ``total``.
        timings: seconds by part, as the server measured them: ``deploy_s``, ``tools_s``, ``verifier_s``.
        warnings: what a user should know.
        messages: the conversation, answers to the last calls included.
    """

    reward: float | None = None
    scores: dict[str, float] = field(default_factory=dict[str, float])
    failure: Failure | None = None
    tool_calls: int = 0
    invalid_calls: int = 0
    unknown_calls: int = 0
    unparsed_calls: int = 0
    turns: int = 0
    truncated: bool = False
    end_reason: str = "failed"
    reset_retries: int = 0
    model_retries: int = 0
    seconds: dict[str, float] = field(
        default_factory=lambda: {"reset": 0.0, "model": 0.0, "tools": 0.0, "end": 0.0, "total": 0.0}
    )
    timings: dict[str, float] = field(default_factory=dict[str, float])
    warnings: list[str] = field(default_factory=list[str])
    messages: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def fail(self, failure: Failure) -> None:
        """End as failed; the first failure stands."""
        if self.failure is None:
            self.failure = failure
        self.reward = None
        self.scores = {}
        self.end_reason = "failed"


def result_dict(result: Result) -> dict[str, Any]:
    """The result as trainers get it: JSON throughout, finite numbers, valid Unicode.

    A failed rollout has ``reward`` 0.0, a placeholder for trainers that need a number, and the key
    ``agentenv_failure``, by which filters drop it; a scored one lacks that key.
    ``agent_metrics["total_tool_time"]`` counts the seconds in which the rollout waited for the env: reset, tools, ends
    of turns.
    """
    seconds = result.seconds
    metrics: dict[str, Any] = {
        "total_tool_time": seconds["reset"] + seconds["tools"] + seconds["end"],
        "unknown_calls": result.unknown_calls,
        "unparsed_calls": result.unparsed_calls,
        "turns": result.turns,
        "reset_retries": result.reset_retries,
        "model_retries": result.model_retries,
        "end_reason": result.end_reason,
        "seconds": dict(seconds),
        "timings": dict(result.timings),
    }
    if result.warnings:
        metrics["warnings"] = list(result.warnings)
    answer: dict[str, Any] = {
        "reward": 0.0 if result.failure is not None or result.reward is None else result.reward,
        "agentenv_scores": dict(result.scores),
        "agentenv_tool_calls": result.tool_calls,
        "agentenv_invalid_calls": result.invalid_calls,
        "agentenv_truncated": result.truncated,
        "agent_metrics": metrics,
    }
    if result.failure is not None:
        answer["agentenv_failure"] = str(result.failure)
        metrics["retryable"] = result.failure.retryable
    elif result.reward is None:
        answer["agentenv_failure"] = "no_reward: the episode ended without a reward"
    return cast("dict[str, Any]", json_safe(answer))


def json_safe(value: object) -> object:
    """A copy that any JSON encoder takes: numbers that are not finite become 0.0, half surrogates become ``?``."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else 0.0
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        fields = cast("dict[object, object]", value)
        return {str(json_safe(str(key))): json_safe(item) for key, item in fields.items()}
    if isinstance(value, (list, tuple)):
        return [json_safe(item) for item in cast("list[object]", value)]
    return json_safe(str(value))
