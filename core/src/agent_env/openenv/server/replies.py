"""Observations made from what the engine gives: turns, tool results, outcomes, failures."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from agent_env.errors import Failure
from agent_env.openenv.server.frames import Observation
from agent_env.openenv.wire import END_TURN

if TYPE_CHECKING:
    from agent_env.episode import Outcome, Turn
    from agent_env.openenv.wire import ToolErrorType
    from agent_env.plugin.sandbox import Isolation
    from agent_env.plugin.tools import ToolResult

Task = dict[str, Any]
_OVER = "The episode is over."
_ERROR_TYPES: dict[str, ToolErrorType] = {"env": "transport_error", "tool_timeout": "timeout"}


def opened(turn: Turn, task: Task, isolation: Isolation | None = None) -> Observation:
    """The first turn; ``isolation`` is the least among the episode's envs, where they run in sandboxes."""
    metadata: dict[str, Any] = {"prompt": turn.prompt, "system_prompt": turn.system_prompt, "task": task}
    if isolation is not None:
        metadata["agentenv"] = {"isolation": isolation}
    return Observation(metadata=metadata)


def result_object(result: ToolResult) -> dict[str, Any]:
    """A tool's result as both ``step`` and ``tools/call`` send it."""
    return {
        "content": [dict(part) for part in result.content],
        "structured_content": result.structured,
        "meta": dict(result.meta) if result.meta is not None else None,
        "data": result.text,
        "is_error": result.is_error,
    }


def answered(name: str, result: ToolResult) -> Observation:
    """A tool's answer."""
    return Observation({"tool_name": name, "result": result_object(result), "error": None})


def tool_error(name: str, kind: ToolErrorType, message: str, *, done: bool = False) -> Observation:
    """A call that was not played."""
    error = {"error_type": kind, "message": message}
    return Observation({"tool_name": name, "result": None, "error": error}, done=done)


def next_turn(turn: Turn, task: Task) -> Observation:
    """The turn after the one that was ended."""
    data = {"prompt": turn.prompt, "system_prompt": turn.system_prompt}
    return Observation(
        {"tool_name": END_TURN, "result": _words(turn.prompt, data), "error": None}, metadata={"task": task}
    )


def ended(outcome: Outcome, task: Task) -> Observation:
    """The end of an episode."""
    reward = outcome.reward
    failure = outcome.failure
    if failure is None and (reward is None or not math.isfinite(reward)):
        failure = Failure("no_reward", f"the episode's reward is {reward!r}, not a finite number")
    if failure is not None:
        return failed(failure, task, tool=END_TURN, timings=outcome.timings)
    facts = outcome.facts
    metadata = {
        "scores": outcome.scores,
        "task": task,
        "agentenv": {
            "timings": outcome.timings,
            "facts": {
                "task_id": facts.task_id,
                "turns": facts.turns,
                "tool_calls": facts.tool_calls,
                "invalid_calls": facts.invalid_calls,
                "truncated": facts.truncated,
                "seconds": facts.seconds,
            },
        },
    }
    data = {"done": True, "reward": reward, "scores": outcome.scores}
    result = {"tool_name": END_TURN, "result": _words(_OVER, data), "error": None}
    return Observation(result, reward=reward, done=True, metadata=metadata)


def failed(
    failure: Failure, task: Task, *, tool: str | None = None, timings: dict[str, float] | None = None
) -> Observation:
    """An episode that ended without a score: never a reward.

    Args:
        failure: why.
        task: the task.
        tool: the tool whose call it was; `None` = the reset.
        timings: seconds by part.
    """
    metadata = {
        "status": "error",
        "error": str(failure),
        "task": task,
        "agentenv": {
            "failure": {"kind": failure.kind, "message": failure.message, "retryable": failure.retryable},
            "timings": timings or {},
        },
    }
    if tool is None:
        return Observation(done=True, metadata=metadata)
    reply = tool_error(tool, _ERROR_TYPES.get(failure.kind, "execution_error"), str(failure), done=True)
    reply.metadata = metadata
    return reply


def _words(text: str, data: dict[str, Any]) -> dict[str, Any]:
    return {
        "content": [{"type": "text", "text": text}],
        "structured_content": None,
        "meta": None,
        "data": data,
        "is_error": False,
    }
