"""The adapter: rows, and rehearsals through the service that NeMo Gym's agents talk to."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from agent_env.errors import UsageError
from agent_env.plugin.trainer import TrainerAdapter
from agent_env.rollout.rows import write_row_files
from agent_env.training.nemo_gym.rows import NemoGymRow

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence
    from pathlib import Path

    from agent_env.plugin.trainer import RehearsalGroup, RehearsalPlan, RehearsalSample, RowSettings


class NemoGymAdapter(TrainerAdapter):
    """NeMo Gym, and NeMo RL on top of it."""

    name = "nemo-gym"

    async def write_rows(
        self, url: str, out: Path, settings: RowSettings, *, progress: Callable[[str, int, int], None] | None = None
    ) -> Sequence[Path]:
        return await write_row_files(url, out, settings, NemoGymRow(settings), progress=progress)

    async def rehearse(self, plan: RehearsalPlan) -> AsyncGenerator[RehearsalSample | RehearsalGroup]:
        """See `TrainerAdapter.rehearse`: the loop of NeMo Gym's simple agent, with ``max_turns`` as its steps."""
        from agent_env.training.nemo_gym.rehearsal import play_groups, read_rows

        if plan.session is not None:
            raise UsageError(f"NeMo Gym has one kind of session, got {plan.session!r}")
        rows = await read_rows(plan)
        events: asyncio.Queue[RehearsalSample | RehearsalGroup | None] = asyncio.Queue()
        work = asyncio.get_running_loop().create_task(play_groups(plan, rows, events))
        work.add_done_callback(lambda _: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
        finally:
            work.cancel()
            await asyncio.wait({work})
        if not work.cancelled():
            work.result()
