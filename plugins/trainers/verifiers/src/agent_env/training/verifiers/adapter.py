"""The adapter: rows, and rehearsals through the episode that verifiers' task and harness play."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_env.plugin.trainer import TrainerAdapter
from agent_env.rollout.rehearsal import rehearse
from agent_env.rollout.rows import write_row_files
from agent_env.training.verifiers.rows import VerifiersRow

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

    from agent_env.plugin.trainer import RehearsalGroup, RehearsalPlan, RehearsalSample, RowSettings


class VerifiersAdapter(TrainerAdapter):
    """verifiers, and prime-rl through it."""

    name = "verifiers"

    async def write_rows(
        self, url: str, out: Path, settings: RowSettings, *, progress: Callable[[str, int, int], None] | None = None
    ) -> Sequence[Path]:
        return await write_row_files(url, out, settings, VerifiersRow(url, settings), progress=progress)

    def rehearse(self, plan: RehearsalPlan) -> AsyncIterator[RehearsalSample | RehearsalGroup]:
        """See `TrainerAdapter.rehearse`."""
        from agent_env.training.verifiers.rehearsal import play

        return rehearse(plan, "verifiers", play)
