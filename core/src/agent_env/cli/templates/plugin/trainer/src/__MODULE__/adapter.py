"""The adapter: rows, and rehearsals through the function that the trainer loads."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_env.errors import UsageError
from agent_env.plugin.trainer import RehearsalGroup, RehearsalSample, TrainerAdapter
from agent_env.rollout.rows import write_row_files

from __MODULE__.rows import Row

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from agent_env.plugin.trainer import RehearsalPlan, RowSettings

Events = asyncio.Queue[RehearsalSample | RehearsalGroup | None]


class __CLASS__Adapter(TrainerAdapter):
    """Everything heavy is imported where it is used."""

    name = "__NAME__"

    async def write_rows(
        self, url: str, out: Path, settings: RowSettings, *, progress: Callable[[str, int, int], None] | None = None
    ) -> Sequence[Path]:
        """One ``<split>.jsonl`` for each split, whole or not at all."""
        return await write_row_files(url, out, settings, Row(url, settings), progress=progress)

    async def rehearse(self, plan: RehearsalPlan) -> AsyncGenerator[RehearsalSample | RehearsalGroup]:
        """Play rows that were really written, against a stand-in model."""
        if plan.session is not None:
            raise UsageError(f"__NAME__ has one kind of session, got {plan.session!r}")
        rows = await _rows(plan)
        events: Events = asyncio.Queue()
        work = asyncio.create_task(_play(plan, rows, events))
        work.add_done_callback(lambda _: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
        finally:
            work.cancel()
            await asyncio.wait({work})
        if not work.cancelled():
            work.result()


async def _rows(plan: RehearsalPlan) -> list[dict[str, Any]]:
    row = Row(plan.url, plan.rows)
    with tempfile.TemporaryDirectory(prefix="__DIST__-") as folder:
        files = await write_row_files(plan.url, Path(folder), plan.rows, row, only={plan.split: plan.groups})
        if not files:
            raise UsageError(f"the server has no split {plan.split!r}")
        lines = await asyncio.to_thread(files[0].read_bytes)
    return [json.loads(line) for line in lines.splitlines()]


async def _play(plan: RehearsalPlan, rows: list[dict[str, Any]], events: Events) -> None:
    from agent_env.testing.standin import StandInModel

    from __MODULE__.play import play

    limit = asyncio.Semaphore(plan.concurrency or max(1, len(rows) * plan.samples))
    async with StandInModel(plan.reply) as model:

        async def one(row: dict[str, Any]) -> RehearsalSample:
            async with limit:
                began = time.perf_counter()
                result, tokens = await play(row, model.url)
            sample = RehearsalSample(
                task_id=row["metadata"]["task_id"],
                reward=result.reward,
                scores=result.scores,
                tool_calls=result.tool_calls,
                invalid_calls=result.invalid_calls,
                failure=result.failure,
                turns=result.turns,
                trained_tokens=0 if result.failure else tokens,
                seconds=time.perf_counter() - began,
                timings=result.timings,
                warnings=tuple(result.warnings),
                transcript=result.messages,
            )
            events.put_nowait(sample)
            return sample

        async def group(row: dict[str, Any]) -> None:
            async with asyncio.TaskGroup() as tasks:
                started = [tasks.create_task(one(row)) for _ in range(plan.samples)]
            samples = tuple(task.result() for task in started)
            kept = all(sample.failure is None for sample in samples)  # as the trainer's own filter decides
            events.put_nowait(RehearsalGroup(row["metadata"]["task_id"], kept, samples))

        async with asyncio.TaskGroup() as tasks:
            for row in rows:
                tasks.create_task(group(row))
