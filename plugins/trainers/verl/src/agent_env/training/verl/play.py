"""One row played as an episode, whoever samples the tokens."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from agent_env.rollout.loop import Rollout
from agent_env.rollout.session import connect as connect_openenv
from agent_env.rollout.supervise import Supervisor
from agent_env.training.verl.turns import TokenModel

if TYPE_CHECKING:
    from agent_env.rollout.result import Result
    from agent_env.rollout.row import EpisodeRow
    from agent_env.rollout.session import Connect
    from agent_env.training.verl.engine import Engine

_log = logging.getLogger(__name__)
_supervisor = Supervisor()
_said: set[str] = set()


async def play(
    row: EpisodeRow,
    engine: Engine,
    *,
    room: int,
    max_model_len: int | None = None,
    max_turns: int | None = None,
    connect: Connect = connect_openenv,
) -> tuple[Result, TokenModel]:
    """Play ``row``: the rollout, scored or failed, and its tokens.

    Args:
        row: the row.
        engine: the model and its tokens, for this episode alone.
        room: tokens that the response may have.
        max_model_len: tokens of prompt and response that the engine takes.
        max_turns: replies at most, where that is fewer than the row says.
        connect: makes the episode's session.

    Raises:
        UsageError: the prompt does not fit.
        PluginError: the row's parser is not installed.
        asyncio.CancelledError: the caller was cancelled; the episode is torn down by then.
    """
    parser = row.load_parser()
    prompt = [dict(message) for message in row.prompt]
    tools = [dict(tool) for tool in row.tools]
    model = TokenModel(engine, room, max_model_len=max_model_len, parser=parser)
    await model.begin(prompt, tools)
    rollout = Rollout(
        row.target,
        prompt,
        tools,
        model,
        row.settings(most_turns=max_turns),
        parser=parser,
        connect=connect,
    )
    result = await _supervisor.play(rollout)
    for warning in result.warnings:
        kind = warning[:80]
        if kind not in _said and len(_said) < 100:
            _said.add(kind)
            _log.warning("rollout of %s: %s", row.task_id, warning)
    return result, model
