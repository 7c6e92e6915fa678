"""What the agent loop reads of a row's columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from agent_env.rollout.fields import Fields
from agent_env.rollout.row import EpisodeRow, read_episode_row

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def read_row(columns: Mapping[str, Any], *, prompt_key: str = "raw_prompt") -> EpisodeRow:
    """Read a row's columns; without a parser of ours verl's is meant, ``rollout.multi_turn.format``.

    Raises:
        UsageError: something is missing or of the wrong type; the message names it.
    """
    row = Fields(columns, mend="write rows with `agentenv rows verl`")
    own = row.inner("agentenv", row.json("agentenv"), form="JSON text of an object")
    return read_episode_row(
        own,
        own,
        prompt=_prompt(row, prompt_key),
        tools=row.schemas("agentenv_tools", row.json("agentenv_tools"), form="JSON text of a list of function schemas"),
        token=own.token("the agent loop runs", "verl's Ray workers too, before Ray is started"),
    )


def _prompt(row: Fields, key: str) -> tuple[dict[str, Any], ...]:
    value: object = row.values.get(key)
    kind = type(value).__name__
    if kind not in {"str", "dict"} and hasattr(value, "__iter__"):  # a list, or an array of objects
        messages = list(cast("Iterable[object]", value))
        if messages and all(isinstance(message, dict) for message in messages):
            return tuple(dict(cast("dict[str, Any]", message)) for message in messages)
    raise row.wrong(key, "a list of messages", value)
