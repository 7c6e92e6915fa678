"""A rehearsal: the turns of the agent loop, with a Python function as the model and bytes as tokens."""

from __future__ import annotations

import asyncio
import copy
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_env.errors import EpisodeFailed, UsageError
from agent_env.plugin.trainer import RehearsalSample
from agent_env.rollout.rehearsal import only_file, play_groups
from agent_env.testing.standin.replies import engine_message
from agent_env.testing.standin.tokens import completion_tokens, prompt_tokens
from agent_env.training.verl.adapter import write_parquet_rows
from agent_env.training.verl.engine import Tokens
from agent_env.training.verl.failures import is_scored
from agent_env.training.verl.parquet import read_parquet
from agent_env.training.verl.play import play as play_row
from agent_env.training.verl.row import read_row

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agent_env.plugin.parser import ToolCallParser
    from agent_env.plugin.trainer import RehearsalPlan
    from agent_env.rollout.rehearsal import Emit
    from agent_env.rollout.row import EpisodeRow
    from agent_env.training.verl.engine import Sampled

    Policy = Callable[[list[dict[str, Any]], list[dict[str, Any]]], dict[str, Any]]

_ROOM = 10_000_000
"""The stand-in has no limits: its tokens are bytes."""


async def play(plan: RehearsalPlan, emit: Emit) -> None:
    """Play every group of the plan."""
    with tempfile.TemporaryDirectory(prefix="agentenv-rehearse-") as folder:
        files = await write_parquet_rows(plan.url, Path(folder), plan.rows, only={plan.split: plan.groups})
        written = await asyncio.to_thread(read_parquet, only_file(plan, files))
    rows = [read_row(row, prompt_key="prompt") for row in written]
    await play_groups(plan, rows, lambda row: _play(row, plan.reply), emit, kept=_kept)


def _kept(samples: Sequence[RehearsalSample]) -> bool:
    return any(sample.failure is None for sample in samples)  # verl's sync trainer keeps the survivors


async def _play(row: EpisodeRow, reply: Policy) -> RehearsalSample:
    began = time.perf_counter()
    engine = StandInEngine(reply, row.load_parser())
    result, model = await play_row(row, engine, room=_ROOM)
    trained = sum(model.tokens.mask)
    try:
        is_scored(result, trained, f"rollout of {row.task_id!r}", "raise")
    except EpisodeFailed:
        trained = 0
    return RehearsalSample(
        task_id=row.task_id,
        reward=result.reward,
        scores=dict(result.scores),
        tool_calls=result.tool_calls,
        invalid_calls=result.invalid_calls,
        failure=result.failure,
        turns=result.turns,
        trained_tokens=trained,
        seconds=time.perf_counter() - began,
        timings=dict(result.timings),
        warnings=tuple(result.warnings),
        transcript=result.messages,
    )


@dataclass(frozen=True, slots=True)
class _Reply:
    """A reply of the stand-in, as verl's ``TokenOutput``, with its message."""

    token_ids: list[int]
    message: dict[str, Any]
    log_probs: list[float] | None = None
    stop_reason: str | None = "completed"


class StandInEngine:
    """A Python function as the model of one episode.

    Args:
        reply: the function; it runs off the event loop.
        parser: the calls are written as text in this parser's format; `None` = they are as the engine would read them.
    """

    def __init__(self, reply: Policy, parser: ToolCallParser | None) -> None:
        self._reply = reply
        self._parser = parser
        self._messages: list[dict[str, Any]] = []
        self._tools: list[dict[str, Any]] = []

    async def start(self, messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]]) -> Tokens:
        """See `agent_env.training.verl.engine.Engine`."""
        self._messages, self._tools = list(messages), list(tools)
        return Tokens(prompt_tokens(self._messages, self._tools))

    async def sample(self, ids: list[int], limit: int) -> Sampled:
        """See `agent_env.training.verl.engine.Engine`."""
        del ids, limit
        made = await asyncio.to_thread(self._reply, copy.deepcopy(self._messages), copy.deepcopy(self._tools))
        message = {key: value for key, value in engine_message(made).items() if value is not None}
        return _Reply(completion_tokens(message), message)

    async def add_reply(self, tokens: Tokens, reply: Sampled) -> Tokens:
        """See `agent_env.training.verl.engine.Engine`."""
        ids = reply.token_ids
        return Tokens([*tokens.ids, *ids], [*tokens.mask, *([1] * len(ids))])

    async def add_context(
        self, tokens: Tokens, before: list[dict[str, Any]], after: list[dict[str, Any]], tools: list[dict[str, Any]]
    ) -> Tokens:
        """See `agent_env.training.verl.engine.Engine`."""
        del tools
        self._messages = list(after)
        ids = prompt_tokens(after[len(before) :], None, after=tokens.ids)
        return Tokens(ids, [*tokens.mask, *([0] * (len(ids) - len(tokens.ids)))])

    async def read(self, reply: Sampled) -> dict[str, Any]:
        """See `agent_env.training.verl.engine.Engine`."""
        assert isinstance(reply, _Reply)
        message = dict(reply.message)
        calls = [call["function"] for call in message.get("tool_calls") or ()]
        if self._parser is None or not calls:
            return message
        text = self._parser.render([{"name": call["name"], "arguments": call["arguments"]} for call in calls])
        if text is None:
            raise UsageError(f"the parser {self._parser.name!r} cannot write these calls")
        return {"role": "assistant", "content": f"{message['content']}{text}"}

    def ends_itself(self, reply: Sampled) -> bool:
        """See `agent_env.training.verl.engine.Engine`."""
        del reply
        return True
