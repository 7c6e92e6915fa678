"""A scored episode as verl's agent loops return it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent_env.rollout.result import json_safe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent_env.rollout.result import Result
    from agent_env.training.verl.turns import TokenModel


def output_fields(result: Result, model: TokenModel, room: int, task_id: str) -> dict[str, Any]:
    """The fields of verl's ``AgentLoopOutput``.

    ``extra_fields["reward_extra_info"]`` has the same keys and numbers in every sample, as verl demands; the scores of
    the task's steps are in ``extra_fields["agentenv"]``.
    """
    tokens = model.tokens
    logprobs = tokens.logprobs
    fields: dict[str, Any] = {
        "prompt_ids": tokens.prompt_ids,
        "response_ids": tokens.response_ids[:room],
        "response_mask": tokens.mask[:room],
        "response_logprobs": None if logprobs is None else logprobs[:room],
        "reward_score": result.reward,
        "num_turns": result.turns + model.contexts + 1,
        "metrics": {
            "generate_sequences": result.seconds["model"],
            "tool_calls": result.seconds["tools"],
            "compute_score": result.seconds["end"],
            "num_preempted": _preempted(model.replies),
        },
        "extra_fields": {
            **_engine_fields(model.replies),
            "turn_scores": [],
            "tool_rewards": [],
            "reward_extra_info": {
                "score": result.reward,
                "agentenv_turns": float(result.turns),
                "agentenv_tool_calls": float(result.tool_calls),
                "agentenv_invalid_calls": float(result.invalid_calls),
                "agentenv_unknown_calls": float(result.unknown_calls),
                "agentenv_truncated": float(result.truncated),
                "agentenv_reset_s": float(result.seconds["reset"]),
            },
            "agentenv": json_safe(
                {
                    "task_id": task_id,
                    "scores": dict(result.scores),
                    "end_reason": result.end_reason,
                    "timings": dict(result.timings),
                }
            ),
        },
    }
    routed = getattr(model.replies[-1], "routed_experts", None) if model.replies else None
    if routed is not None:
        fields["routed_experts"] = routed[: len(tokens.prompt_ids) + room]
    return fields


def _preempted(replies: Sequence[Any]) -> int:
    counts = [count for reply in replies if (count := getattr(reply, "num_preempted", None)) is not None]
    return sum(counts) if counts else -1


def _engine_fields(replies: Sequence[Any]) -> dict[str, Any]:
    """What the engine says beside tokens: of the first reply, with the last weights' step and summed counts."""
    fields: dict[str, Any] = {}
    for reply in replies:
        extra: dict[str, Any] = getattr(reply, "extra_fields", None) or {}
        if not fields:
            fields.update(extra)
            continue
        if extra.get("max_global_steps"):
            fields["max_global_steps"] = extra["max_global_steps"]
        for key, value in extra.items():
            if key.startswith("spec_") and isinstance(value, int) and isinstance(fields.get(key), int):
                fields[key] += value
    return fields
