"""One episode of an evaluation: played, and again when it failed for a passing reason."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent_env.evaluation.endpoint import EpisodeModel
from agent_env.evaluation.record import EpisodeRecord, record_of
from agent_env.evaluation.usage import Usage
from agent_env.rollout import Rollout, Settings, Target
from agent_env.rollout.session import connect as connect_openenv

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import httpx
    from agent_env.errors import Failure
    from agent_env.evaluation.endpoint import Endpoint
    from agent_env.evaluation.settings import EvalSettings
    from agent_env.plugin.parser import ToolCallParser
    from agent_env.plugin.tools import ToolSpec
    from agent_env.rollout import Result, Supervisor
    from agent_env.rollout.session import Session, ToolReply, TurnReply

_SEED = "<seed>"
_GRACE = 5.0
"""Seconds that the endpoint has for saying itself why a reply took too long."""


@dataclass(frozen=True, slots=True)
class Table:
    """What all episodes of a run are played with.

    Attributes:
        url: address of the bundle's server.
        token: the server's token.
        settings: of the run.
        endpoint: the model's.
        supervisor: owns the rollouts.
        new_parser: makes a parser for an episode, `None` = the endpoint parses calls.
        retries: attempts beyond the first for an episode that failed for a passing reason.
        seeded: names of tasks that are known to need a seed; found out by playing.
    """

    url: str
    token: str | None
    settings: EvalSettings
    endpoint: Endpoint
    supervisor: Supervisor
    new_parser: Callable[[], ToolCallParser] | None
    retries: int
    seeded: set[str]

    def __repr__(self) -> str:
        return f"Table({self.url!r})"


async def play_episode(
    table: Table, client: httpx.AsyncClient, task: Mapping[str, Any], repeat: int, tools: Sequence[Mapping[str, Any]]
) -> EpisodeRecord:
    """Play a task once, to a score or a failure.

    Args:
        table: what the run plays with.
        client: for the endpoint.
        task: ``name`` and ``index``.
        repeat: number of the episode among those of its task.
        tools: the task's tools, OpenAI function schemas.
    """
    usage = Usage()
    earlier: list[Failure] = []
    while True:
        model = EpisodeModel(
            table.endpoint, client, request_of(table.settings, repeat), max_tokens=table.settings.max_episode_tokens
        )
        seed = table.settings.task_seed if str(task["name"]) in table.seeded else None
        result = await _play(table, model, task, tools, seed)
        usage.merge(model.usage)
        failure = result.failure
        if failure is not None and seed is None and _SEED in failure.message:
            table.seeded.add(str(task["name"]))
            continue
        # Without a prompt it failed in the reset, which was tried for as long as it may take already.
        waited_out = not result.messages
        if failure is not None and failure.retryable and not waited_out and len(earlier) < table.retries:
            earlier.append(failure)
            continue
        return record_of(result, task, repeat, usage=usage, earlier=earlier, ended=time.time())


def request_of(settings: EvalSettings, repeat: int) -> dict[str, Any]:
    """The fields of every request of an episode."""
    request: dict[str, Any] = {"model": settings.model, **settings.sampling}
    if settings.seed is not None:
        request["seed"] = settings.seed + repeat
    return request


async def _play(
    table: Table,
    model: EpisodeModel,
    task: Mapping[str, Any],
    tools: Sequence[Mapping[str, Any]],
    seed: int | None,
) -> Result:
    settings = table.settings
    prompt: list[dict[str, Any]] = []

    def connect(url: str, token: str | None, wait: float) -> Session:
        return _TellsPrompt(connect_openenv(url, token, wait), prompt)

    rollout = Rollout(
        Target(
            table.url,
            settings.split,
            int(task["index"]),
            seed=seed,
            token=table.token,
        ),
        [],
        tools,
        model,
        Settings(
            max_turns=settings.max_turns,
            tool_timeout=settings.tool_timeout,
            reset_timeout=settings.reset_timeout,
            model_timeout=settings.model_timeout + _GRACE,
        ),
        parser=table.new_parser() if table.new_parser is not None else None,
        connect=connect,
    )
    # The prompt is that of the episode, with its seed, not that of a list of tasks.
    rollout.result.messages = prompt
    result = await table.supervisor.play(rollout)
    if model.over_budget:
        words = f"the episode's budget of {settings.max_episode_tokens} tokens was spent"
        result.warnings = [text for text in result.warnings if "outgrew the model's context" not in text] + [words]
        if result.failure is None:
            result.end_reason = "budget"
    return result


class _TellsPrompt:
    """A session that writes the prompt of its episode into a list."""

    def __init__(self, session: Session, prompt: list[dict[str, Any]]) -> None:
        self._session = session
        self._prompt = prompt

    async def open(self) -> None:
        await self._session.open()

    async def close(self) -> None:
        await self._session.close()

    async def reset(
        self,
        *,
        split: str,
        index: int,
        seed: int | None = None,
        episode_id: str | None = None,
        timeout: float = 600.0,  # noqa: ASYNC109 - as the protocol has it
    ) -> TurnReply:
        turn = await self._session.reset(split=split, index=index, seed=seed, episode_id=episode_id, timeout=timeout)
        if turn.failure is None:
            self._prompt[:] = [{"role": "user", "content": turn.prompt or ""}]
            if turn.system_prompt:
                self._prompt.insert(0, {"role": "system", "content": turn.system_prompt})
        return turn

    async def list_tools(self, *, timeout: float = 60.0) -> Sequence[ToolSpec]:  # noqa: ASYNC109
        return await self._session.list_tools(timeout=timeout)

    async def call_tool(self, name: str, arguments: Mapping[str, Any], *, timeout: float = 60.0) -> ToolReply:  # noqa: ASYNC109
        return await self._session.call_tool(name, arguments, timeout=timeout)

    async def end_turn(
        self,
        response: str,
        *,
        timeout: float = 600.0,  # noqa: ASYNC109
        invalid_calls: int = 0,
        truncated: bool = False,
    ) -> TurnReply:
        return await self._session.end_turn(response, timeout=timeout, invalid_calls=invalid_calls, truncated=truncated)
