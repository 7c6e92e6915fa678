"""What a row says, as an episode, a parser and first messages; shared by the harness and the rehearsal."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, cast

from agent_env.errors import UsageError
from agent_env.rollout.loop import Settings
from agent_env.rollout.opening import Target
from agent_env.training.verifiers.episode import Episode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent_env.plugin.parser import ToolCallParser


def read_token(token_var: str | None) -> str | None:
    """The token in the named environment variable.

    Raises:
        UsageError: it is not set.
    """
    if token_var is None:
        return None
    token = os.environ.get(token_var)
    if not token:
        raise UsageError(
            f"the server's token is asked for in the environment variable {token_var}, which is not set where the "
            "rollouts run: set it for the environment server's workers too"
        )
    return token


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
    if name is None:
        return None
    from agent_env.registry import default_registry

    return cast("ToolCallParser", default_registry().load("parser", name)())


def messages_of(prompt: str, system_prompt: str | None) -> list[dict[str, Any]]:
    """The first messages."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": system_prompt}] if system_prompt else []
    return [*messages, {"role": "user", "content": prompt}]
