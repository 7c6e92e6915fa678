"""The adapter: Parquet rows, and rehearsals through the turns that the agent loop plays."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from agent_env.plugin.trainer import TrainerAdapter
from agent_env.rollout.rehearsal import rehearse
from agent_env.rollout.rows import write_row_files
from agent_env.training.verl.rows import VerlRow

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from agent_env.plugin.trainer import RehearsalGroup, RehearsalPlan, RehearsalSample, RowSettings


class VerlAdapter(TrainerAdapter):
    """verl."""

    name = "verl"

    async def write_rows(
        self, url: str, out: Path, settings: RowSettings, *, progress: Callable[[str, int, int], None] | None = None
    ) -> Sequence[Path]:
        return await write_parquet_rows(url, out, settings, progress=progress)

    def rehearse(self, plan: RehearsalPlan) -> AsyncIterator[RehearsalSample | RehearsalGroup]:
        """See `TrainerAdapter.rehearse`."""
        from agent_env.training.verl.rehearsal import play

        return rehearse(plan, "verl", play)


async def write_parquet_rows(
    url: str,
    out: Path,
    settings: RowSettings,
    *,
    progress: Callable[[str, int, int], None] | None = None,
    only: Mapping[str, int] | None = None,
) -> list[Path]:
    """As `agent_env.rollout.rows.write_row_files`, in Parquet."""
    from agent_env.training.verl.parquet import write_parquet

    with tempfile.TemporaryDirectory(prefix="agentenv-rows-") as folder:
        lines = await write_row_files(url, Path(folder), settings, VerlRow(url, settings), progress=progress, only=only)
        return await asyncio.to_thread(write_parquet, lines, out)
