"""What a row says, as an episode, a parser and first messages; shared by the harness and the rehearsal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent_env.rollout.fields import Fields
from agent_env.rollout.loop import Settings
from agent_env.rollout.opening import Target
from agent_env.rollout.parsers import load_parser
from agent_env.training.verifiers.episode import Episode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent_env.plugin.parser import ToolCallParser


def read_token(token_var: str | None) -> str | None:
    """The token in the named environment variable.

    Raises:
        UsageError: it is not set.
    """
    fields = Fields({"token_var": token_var}, owner="the taskset")
    return fields.token("the rollouts run", "the environment server's workers too")


def episode_of(row: Mapping[str, Any]) -> Episode:
    """The episode of a row, not open yet.

    Raises:
        UsageError: the token's variable is not set.
    """
    return Episode(
        Target(row["url"], row["split"], row["index"], seed=row.get("seed"), token=read_token(row["token_var"])),
        Settings(
            max_turns=row["max_turns"],
            tool_timeout=row["tool_timeout"],
            reset_timeout=row["reset_timeout"],
            model_timeout=row["model_timeout"],
        ),
    )


def parser_of(name: str | None) -> ToolCallParser | None:
    """The parser plugin of that name."""
    return None if name is None else load_parser(name)


def messages_of(prompt: str, system_prompt: str | None) -> list[dict[str, Any]]:
    """The first messages."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": system_prompt}] if system_prompt else []
    return [*messages, {"role": "user", "content": prompt}]
