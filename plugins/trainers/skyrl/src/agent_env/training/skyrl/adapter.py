"""The adapter: rows, and rehearsals through the environment that SkyRL steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_env.plugin.trainer import TrainerAdapter
from agent_env.rollout.rehearsal import rehearse
from agent_env.rollout.rows import write_row_files
from agent_env.training.skyrl.rows import SkyrlRow

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

    from agent_env.plugin.trainer import RehearsalGroup, RehearsalPlan, RehearsalSample, RowSettings


class SkyrlAdapter(TrainerAdapter):
    """SkyRL."""

    name = "skyrl"

    async def write_rows(
        self, url: str, out: Path, settings: RowSettings, *, progress: Callable[[str, int, int], None] | None = None
    ) -> Sequence[Path]:
        return await write_row_files(url, out, settings, SkyrlRow(url, settings), progress=progress)

    def rehearse(self, plan: RehearsalPlan) -> AsyncIterator[RehearsalSample | RehearsalGroup]:
        """See `TrainerAdapter.rehearse`: each reply is written as text and parsed again, as in a training run."""
        from agent_env.training.skyrl.rehearsal import play

        return rehearse(plan, "SkyRL", play)
