"""What the trainer loads by name: plays one row against the model that it serves."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent_env.errors import UsageError
from agent_env.rollout import ChatModel, Rollout, Settings, Supervisor, Target

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent_env.plugin.parser import ToolCallParser
    from agent_env.rollout import Reply, Result

SUPERVISOR = Supervisor()


@dataclass(slots=True)
class Counted:
    """A model whose tokens are counted."""

    model: ChatModel
    tokens: int = 0

    async def __call__(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]], /) -> Reply:
        """The model's reply."""
        reply = await self.model(messages, tools)
        self.tokens += reply.completion_tokens or 0
        return reply


async def play(row: Mapping[str, Any], base_url: str) -> tuple[Result, int]:
    """Play a row; an env's failure is in `Result.failure`, never a reward.

    Args:
        row: a row that `__MODULE__.rows.Row` worded.
        base_url: the model's OpenAI chat endpoint.

    Returns:
        The result, and how many tokens the model wrote.
    """
    metadata, own = row["metadata"], row["metadata"]["agentenv"]
    target = Target(own["url"], metadata["split"], metadata["index"], token=_token(own["token_var"]))
    settings = Settings(
        max_turns=own["max_turns"],
        tool_timeout=own["tool_timeout"],
        reset_timeout=own["reset_timeout"],
        model_timeout=own["model_timeout"],
    )
    async with ChatModel(base_url, timeout=settings.model_timeout) as chat:
        model = Counted(chat)
        parser = _parser(own["parser"])
        rollout = Rollout(target, row["messages"], row["tools"], model, settings, parser=parser)
        return await SUPERVISOR.play(rollout), model.tokens


def _token(variable: str | None) -> str | None:
    if variable is None:
        return None
    token = os.environ.get(variable)
    if not token:
        raise UsageError(f"the row asks for the token in the environment variable {variable}, which is not set")
    return token


def _parser(name: str | None) -> ToolCallParser | None:
    if name is None:
        return None
    from agent_env.registry import default_registry

    parser: ToolCallParser = default_registry().load("parser", name)()
    return parser
