"""A rehearsal: the episode, prompt and loop of the harness, with a Python function behind a real chat endpoint."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from agent_env.errors import EpisodeFailed
from agent_env.plugin.trainer import RehearsalSample
from agent_env.rollout.chat import ChatModel
from agent_env.rollout.rehearsal import play_groups, read_written_rows
from agent_env.training.verifiers.play import episode_of, messages_of, parser_of
from agent_env.training.verifiers.rows import VerifiersRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent_env.plugin.trainer import RehearsalPlan
    from agent_env.rollout.model import Model, Reply
    from agent_env.rollout.rehearsal import Emit
    from agent_env.rollout.result import Result


async def play(plan: RehearsalPlan, emit: Emit) -> None:
    """Play every group of the plan."""
    from agent_env.testing.standin import StandInModel

    rows = await read_written_rows(plan, VerifiersRow(plan.url, plan.rows))
    async with StandInModel(plan.reply) as model:
        await play_groups(plan, rows, lambda row: _play(row, model.url), emit, kept=_kept)


def _kept(samples: Sequence[RehearsalSample]) -> bool:
    return any(sample.failure is None for sample in samples)  # the survivors of a group are trained on


async def _play(row: dict[str, Any], url: str) -> RehearsalSample:
    began = time.perf_counter()
    episode = episode_of(row)
    tokens = 0
    result = episode.result
    try:
        await episode.open()
        async with ChatModel(url, timeout=row["model_timeout"]) as model:
            counting = _Counting(model)
            prompt = messages_of(row["prompt"], row["system_prompt"])
            result = await episode.converse(prompt, counting, parser=parser_of(row["parser"]))
            tokens = counting.tokens
    except EpisodeFailed:
        result = episode.result
    finally:
        await episode.close()
    return _sample(row, result, tokens, time.perf_counter() - began)


def _sample(row: dict[str, Any], result: Result, tokens: int, seconds: float) -> RehearsalSample:
    return RehearsalSample(
        task_id=row["id"],
        reward=result.reward,
        scores=dict(result.scores),
        tool_calls=result.tool_calls,
        invalid_calls=result.invalid_calls,
        failure=result.failure,
        turns=result.turns,
        trained_tokens=0 if result.failure is not None else tokens,
        seconds=seconds,
        timings=dict(result.timings),
        warnings=tuple(result.warnings),
        transcript=result.messages,
    )


class _Counting:
    """Counts the tokens that a model wrote."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.tokens = 0

    @property
    def retried(self) -> int:
        """Attempts beyond the first."""
        return int(getattr(self._model, "retried", 0))

    async def __call__(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]], /) -> Reply:
        reply = await self._model(messages, tools)
        self.tokens += reply.completion_tokens or 0
        return reply
