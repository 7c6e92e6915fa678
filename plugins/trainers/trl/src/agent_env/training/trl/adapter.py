"""The adapter: rows, and rehearsals through the environments and the reward function that TRL gets."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from agent_env.errors import UsageError
from agent_env.plugin.trainer import TrainerAdapter
from agent_env.rollout.rows import write_row_files
from agent_env.training.trl.rows import TrlRow

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence
    from pathlib import Path

    from agent_env.plugin.trainer import RehearsalGroup, RehearsalPlan, RehearsalSample, RowSettings


class TrlAdapter(TrainerAdapter):
    """TRL."""

    name = "trl"

    async def write_rows(
        self, url: str, out: Path, settings: RowSettings, *, progress: Callable[[str, int, int], None] | None = None
    ) -> Sequence[Path]:
        return await write_row_files(url, out, settings, TrlRow(url, settings), progress=progress)

    async def rehearse(self, plan: RehearsalPlan) -> AsyncGenerator[RehearsalSample | RehearsalGroup]:
        """See `TrainerAdapter.rehearse`: the environments are played in threads, as TRL's synchronous loop would."""
        from agent_env.training.trl.rehearsal import play_groups, read_spec

        if plan.session is not None:
            raise UsageError(f"TRL has one kind of session, got {plan.session!r}")
        spec = await asyncio.to_thread(read_spec, plan)
        events: asyncio.Queue[RehearsalSample | RehearsalGroup | None] = asyncio.Queue()
        left = threading.Event()
        work = asyncio.get_running_loop().create_task(play_groups(plan, spec, events, left))
        work.add_done_callback(lambda _: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
        finally:
            left.set()
            while not work.done():  # a thread in the middle of a call ends once its episode is closed
                await asyncio.to_thread(spec.close)
                await asyncio.wait({work}, timeout=0.1)
        work.result()
