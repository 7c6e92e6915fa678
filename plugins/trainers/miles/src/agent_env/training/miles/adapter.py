"""The adapter: rows, and rehearsals through the functions that Miles loads."""

from __future__ import annotations

import asyncio
import copy
from typing import TYPE_CHECKING

from agent_env.errors import UsageError
from agent_env.plugin.trainer import RehearsalGroup, TrainerAdapter
from agent_env.rollout.rehearsal import read_written_rows
from agent_env.rollout.rows import write_row_files
from agent_env.training.miles.rows import MilesRow

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence
    from pathlib import Path

    from agent_env.plugin.trainer import RehearsalPlan, RehearsalSample, RowSettings
    from agent_env.training.miles.generate import Generated
    from agent_env.training.miles.sample import Sample

SESSIONS = ("v1", "v2")


class MilesAdapter(TrainerAdapter):
    """Miles."""

    name = "miles"

    async def write_rows(
        self, url: str, out: Path, settings: RowSettings, *, progress: Callable[[str, int, int], None] | None = None
    ) -> Sequence[Path]:
        return await write_row_files(url, out, settings, MilesRow(url, settings), progress=progress)

    async def rehearse(self, plan: RehearsalPlan) -> AsyncGenerator[RehearsalSample | RehearsalGroup]:
        """See `TrainerAdapter.rehearse`; the stand-in model has Miles' sessions, ``v1`` (default) or ``v2``."""
        session = plan.session or "v1"
        if session not in SESSIONS:
            raise UsageError(f"Miles has the sessions {' and '.join(SESSIONS)}, got {session!r}")
        groups = await _groups(plan)
        events: asyncio.Queue[RehearsalSample | RehearsalGroup | None] = asyncio.Queue()
        work = asyncio.get_running_loop().create_task(_play(plan, session, groups, events))
        work.add_done_callback(lambda _: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
        finally:
            work.cancel()
            await asyncio.wait({work})
        if not work.cancelled():
            work.result()


async def _groups(plan: RehearsalPlan) -> list[list[Sample]]:
    """The samples of each group, made from rows that were really written."""
    from agent_env.training.miles.sample import Sample

    rows = await read_written_rows(plan, MilesRow(plan.url, plan.rows))
    groups: list[list[Sample]] = []
    for number, fields in enumerate(rows):
        samples: list[Sample] = []
        for place in range(plan.samples):
            own = copy.deepcopy(fields)
            index = number * plan.samples + place
            samples.append(Sample(own["messages"], own["metadata"], group_index=number, index=index))
        groups.append(samples)
    return groups


async def _play(
    plan: RehearsalPlan,
    session: str,
    groups: list[list[Sample]],
    events: asyncio.Queue[RehearsalSample | RehearsalGroup | None],
) -> None:
    from agent_env.testing.standin import StandInModel
    from agent_env.training.miles import agent
    from agent_env.training.miles.generate import filter_args, generate

    limit = asyncio.Semaphore(plan.concurrency or max(1, len(groups) * plan.samples))
    args = filter_args(plan.samples)
    async with StandInModel(plan.reply, session) as model:

        async def one(sample: Sample) -> Generated:
            async with limit:
                generated = await generate(model.url, sample, session, args)
            events.put_nowait(generated.report)
            return generated

        async def group(samples: list[Sample]) -> None:
            async with asyncio.TaskGroup() as tasks:
                started = [tasks.create_task(one(sample)) for sample in samples]
            played = [task.result() for task in started]
            kept = agent.keep_scored_groups(args, [generated.element for generated in played])
            reports = tuple(generated.report for generated in played)
            events.put_nowait(RehearsalGroup(str(samples[0].metadata["task_id"]), kept, reports))

        async with asyncio.TaskGroup() as tasks:
            for samples in groups:
                tasks.create_task(group(samples))
