"""What the environment reads of a row's extras."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent_env.rollout.fields import Fields
from agent_env.rollout.row import EpisodeRow, read_episode_row

if TYPE_CHECKING:
    from collections.abc import Mapping


def read_row(extras: Mapping[str, Any]) -> EpisodeRow:
    """Read a row's extras; the generator's ``max_turns``, where there is one, goes before the row's.

    Raises:
        UsageError: something is missing or of the wrong type; the message names it.
    """
    task = Fields(extras, owner="the environment's row", mend="write rows with `agentenv rows skyrl`")
    own = task.inner("agentenv", task.json("agentenv"), form="JSON text of an object")
    return read_episode_row(
        task,
        own,
        tools=task.schemas("tools", task.json("tools"), form="JSON text of a list of function schemas"),
        token=own.token("the generator runs", "SkyRL's Ray workers too, before Ray is started"),
        max_turns=task.optional_count("max_turns", least=1),
    )
