"""The adapter: rows, and rehearsals through the service that NeMo Gym's agents talk to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_env.plugin.trainer import TrainerAdapter
from agent_env.rollout.rehearsal import rehearse
from agent_env.rollout.rows import write_row_files
from agent_env.training.nemo_gym.rows import NemoGymRow

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

    from agent_env.plugin.trainer import RehearsalGroup, RehearsalPlan, RehearsalSample, RowSettings


class NemoGymAdapter(TrainerAdapter):
    """NeMo Gym, and NeMo RL on top of it."""

    name = "nemo-gym"

    async def write_rows(
        self, url: str, out: Path, settings: RowSettings, *, progress: Callable[[str, int, int], None] | None = None
    ) -> Sequence[Path]:
        return await write_row_files(url, out, settings, NemoGymRow(settings), progress=progress)

    def rehearse(self, plan: RehearsalPlan) -> AsyncIterator[RehearsalSample | RehearsalGroup]:
        """See `TrainerAdapter.rehearse`: the loop of NeMo Gym's simple agent, with ``max_turns`` as its steps."""
        from agent_env.training.nemo_gym.rehearsal import play

        return rehearse(plan, "NeMo Gym", play)
