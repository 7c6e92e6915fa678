"""The verifier that joins the rows of other verifiers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent_env.episode.rows import record
from agent_env.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent_env.bundle.steps.verify import AggregateVerifiers
    from agent_env.episode.run import EpisodeRun


async def run_aggregate_verifiers(step: AggregateVerifiers, episode: EpisodeRun) -> None:
    """Score all rows of the named verifiers together; skipped rows do not count."""
    rows: list[Mapping[str, Any]] = []
    for name in step.verifier_ids:
        found = episode.verification(name)
        if found is None:
            known = ", ".join(repr(verification.name) for verification in episode.verifications.values()) or "none"
            raise UsageError(f"no verifier {name!r} has recorded rows before this step; recorded: {known}")
        rows += [row for row in found.rows if not row.get("skipped")]
    record(episode, step, rows)
