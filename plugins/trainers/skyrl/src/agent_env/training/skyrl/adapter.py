"""The adapter: rows, and rehearsals through the environment that SkyRL steps."""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_env.errors import UsageError
from agent_env.plugin.trainer import RehearsalGroup, TrainerAdapter
from agent_env.rollout.rows import write_row_files
from agent_env.training.skyrl.rows import SkyrlRow

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from agent_env.plugin.trainer import RehearsalPlan, RehearsalSample, RowSettings

    Events = asyncio.Queue[RehearsalSample | RehearsalGroup | None]


class SkyrlAdapter(TrainerAdapter):
    """SkyRL."""

    name = "skyrl"

    async def write_rows(
        self, url: str, out: Path, settings: RowSettings, *, progress: Callable[[str, int, int], None] | None = None
    ) -> Sequence[Path]:
        return await write_row_files(url, out, settings, SkyrlRow(url, settings), progress=progress)

    async def rehearse(self, plan: RehearsalPlan) -> AsyncGenerator[RehearsalSample | RehearsalGroup]:
        """See `TrainerAdapter.rehearse`: each reply is written as text and parsed again, as in a training run."""
        if plan.session is not None:
            raise UsageError(f"SkyRL has one kind of session, got {plan.session!r}")
        rows = await _rows(plan)
        events: Events = asyncio.Queue()
        work = asyncio.get_running_loop().create_task(_play(plan, rows, events))
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
    """Rows that were really written."""
    with tempfile.TemporaryDirectory(prefix="agentenv-rehearse-") as folder:
        row = SkyrlRow(plan.url, plan.rows)
        files = await write_row_files(plan.url, Path(folder), plan.rows, row, only={plan.split: plan.groups})
        if not files:
            raise UsageError(f"the server has no split {plan.split!r}")
        text = await asyncio.to_thread(files[0].read_text, encoding="utf-8")
    return [json.loads(line) for line in text.split("\n") if line]


async def _play(plan: RehearsalPlan, rows: list[dict[str, Any]], events: Events) -> None:
    from agent_env.training.skyrl.rehearsal import play_sample

    limit = asyncio.Semaphore(plan.concurrency or max(1, len(rows) * plan.samples))

    async def one(row: dict[str, Any]) -> RehearsalSample:
        async with limit:
            sample = await play_sample(row, plan.reply)
        events.put_nowait(sample)
        return sample

    async def group(row: dict[str, Any]) -> None:
        async with asyncio.TaskGroup() as tasks:
            started = [tasks.create_task(one(row)) for _ in range(plan.samples)]
        samples = tuple(task.result() for task in started)
        kept = all(sample.failure is None for sample in samples)  # one failed rollout masks its group
        events.put_nowait(RehearsalGroup(str(row["task_id"]), kept, samples))

    async with asyncio.TaskGroup() as tasks:
        for row in rows:
            tasks.create_task(group(row))
