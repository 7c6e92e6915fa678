"""What `run` reads of a row's metadata."""

from __future__ import annotations

from agent_env.rollout.fields import Fields
from agent_env.rollout.row import EpisodeRow, read_episode_row

_MEND = "write rows with `python -m agent_env.training.miles` and pass --metadata-key metadata"


def read_row(metadata: object) -> EpisodeRow:
    """Read a row's metadata.

    Raises:
        UsageError: something is missing or of the wrong type; the message names it.
    """
    row = Fields({}, owner="the sample", mend=_MEND).inner("metadata", metadata, owner="the row's metadata")
    own = row.inner("agentenv", row.values.get("agentenv"))
    form = "a list of function schemas (is --tool-key set to another column?)"
    return read_episode_row(
        row,
        own,
        tools=row.schemas("tools", row.values.get("tools"), form=form),
        token=own.token("the rollout runs", "the trainer's workers too (Ray: runtime_env env_vars)"),
    )
