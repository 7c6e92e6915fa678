"""A rehearsal: the episode, prompt and loop of the harness, with a Python function behind a real chat endpoint."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_env.errors import EpisodeFailed, UsageError
from agent_env.plugin.trainer import RehearsalGroup, RehearsalSample
from agent_env.rollout.chat import ChatModel
from agent_env.rollout.rows import write_row_files
from agent_env.training.verifiers.play import episode_of, messages_of, parser_of
from agent_env.training.verifiers.rows import VerifiersRow

if TYPE_CHECKING:
    from agent_env.plugin.trainer import RehearsalPlan
    from agent_env.rollout.model import Model, Reply
    from agent_env.rollout.result import Result

    Events = asyncio.Queue[RehearsalSample | RehearsalGroup | None]


async def read_rows(plan: RehearsalPlan) -> list[dict[str, Any]]:
    """The plan's rows, really written and read again.

    Raises:
        UsageError: there is no such split.
    """
    with tempfile.TemporaryDirectory(prefix="agentenv-rehearse-") as folder:
        row = VerifiersRow(plan.url, plan.rows)
        files = await write_row_files(plan.url, Path(folder), plan.rows, row, only={plan.split: plan.groups})
        if not files:
            raise UsageError(f"the server has no split {plan.split!r}")
        text = await asyncio.to_thread(files[0].read_text, encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


async def play_groups(plan: RehearsalPlan, rows: list[dict[str, Any]], events: Events) -> None:
    """Play every group."""
    from agent_env.testing.standin import StandInModel

    limit = asyncio.Semaphore(plan.concurrency or max(1, len(rows) * plan.samples))
    async with StandInModel(plan.reply) as model:

        async def one(row: dict[str, Any]) -> RehearsalSample:
            async with limit:
                sample = await _play(row, model.url)
            events.put_nowait(sample)
            return sample

        async def group(row: dict[str, Any]) -> None:
            async with asyncio.TaskGroup() as tasks:
                started = [tasks.create_task(one(row)) for _ in range(plan.samples)]
            samples = tuple(task.result() for task in started)
            kept = any(sample.failure is None for sample in samples)  # the survivors of a group are trained on
            events.put_nowait(RehearsalGroup(row["id"], kept, samples))

        async with asyncio.TaskGroup() as tasks:
            for row in rows:
                tasks.create_task(group(row))


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
