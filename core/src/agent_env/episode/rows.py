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


def graded(step: VerifierModel, rows: object) -> tuple[list[dict[str, Any]], float]:
    """The rows, checked, and their score.

    Raises:
        BadRows: they are no rows.
    """
    checked = check_rows(rows)
    return checked, aggregate(checked, step.aggregator)


def record(episode: EpisodeRun, step: VerifierModel, rows: object) -> None:
    """Record the rows and their score under the step's id.

    Raises:
        BadRows: they are no rows.
    """
    checked, score = graded(step, rows)
    if not checked:
        episode.services.remark(
            f"step {step.id!r} of task {episode.task.template!r}: the verifier returned no rows, which scores 0"
        )
    episode.record_score(step.id, score, checked, name=step.verification)
