"""Rows that the built-in verifiers write, and how a scoring step records them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent_env.episode.scoring import aggregate, check_rows

if TYPE_CHECKING:
    from agent_env.bundle.steps.criteria import Criterion
    from agent_env.bundle.steps.verify import VerifierModel
    from agent_env.episode.run import EpisodeRun


def judged(criterion: Criterion, passed: bool, why: str) -> dict[str, Any]:  # noqa: FBT001
    """The row of a criterion."""
    row = criterion.model_dump(exclude_none=True)
    return {**row, "result": passed, "score": float(passed), "justification": why, "skipped": False}


def record(episode: EpisodeRun, step: VerifierModel, rows: object) -> None:
    """Check the rows, aggregate them and record the score under the step's id.

    Raises:
        BadRows: they are no rows.
    """
    checked = check_rows(rows)
    episode.record_score(step.id, aggregate(checked, step.aggregator), checked, name=step.verification)
