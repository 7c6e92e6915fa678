"""Plays an evaluation: every task ``k`` times, several at once, each episode on disk as soon as it ends."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_env.errors import AgentEnvError, Failure
from agent_env.evaluation.address import check_base_url
from agent_env.evaluation.endpoint import Endpoint
from agent_env.evaluation.play import Table, play_episode
from agent_env.evaluation.record import record_of
from agent_env.evaluation.serve import read_tasks, server_of
from agent_env.evaluation.settings import EvalSettings, tasks_digest
from agent_env.evaluation.store import RunStore, in_order
from agent_env.evaluation.usage import Usage
from agent_env.plugin.trainer import RowSettings
from agent_env.rollout import Result, Supervisor
from agent_env.rollout.rows.toolsets import Toolsets

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import httpx
    from agent_env.evaluation.plan import EvalPlan
    from agent_env.evaluation.record import EpisodeRecord

DEFAULT_FOLDER = "eval-runs"


@dataclass(frozen=True, slots=True)
class EvalRun:
    """A run as it stands after `evaluate`.

    Attributes:
        folder: where it is kept.
        settings: what was asked for.
        records: every episode, without transcripts.
        stopped: why it ended before everything was played, `None` when it did not.
        left_out: tasks that the server cannot play.
        wasted: tokens of failed episodes that were played again later, ``prompt`` and ``completion``.
    """

    folder: Path
    settings: EvalSettings
    records: list[EpisodeRecord]
    stopped: str | None
    left_out: Sequence[str] = ()
    wasted: Mapping[str, int] = field(default_factory=dict[str, int])


async def evaluate(plan: EvalPlan) -> EvalRun:
    """Play what ``plan`` asks for, or the rest of it when its folder holds a run that was not finished.

    Raises:
        AgentEnvError: nothing could be played at all: the bundle, the settings, the server. A failed episode does not
            raise, it is a record; what stops a run half way is `EvalRun.stopped`.
    """
    plan.check()
    base_url = check_base_url(plan.base_url)
    new_parser = _parser_factory(plan)
    async with server_of(plan) as server:
        split, tasks = await read_tasks(plan, server)
        settings = EvalSettings(
            bundle=server.bundle,
            split=split,
            tasks=len(tasks),
            tasks_digest=tasks_digest(tasks),
            base_url=base_url,
            model=plan.model,
            k=plan.k,
            sampling=dict(plan.sampling),
            seed=plan.seed,
            task_seed=plan.task_seed,
            parser=plan.parser,
            reward=plan.reward_name or (plan.reward if isinstance(plan.reward, str) else None),
            sandbox=plan.sandbox,
            max_turns=plan.max_turns,
            max_episode_tokens=plan.max_episode_tokens,
            tool_timeout=plan.tool_timeout,
            reset_timeout=plan.reset_timeout,
            model_timeout=plan.model_timeout,
            pass_at=plan.pass_at,
        )
        endpoint = Endpoint(base_url, key=plan.key, timeout=plan.model_timeout, retries=plan.model_retries)
        folder = plan.out or Path(DEFAULT_FOLDER) / settings.default_name()
        store = RunStore(
            folder,
            settings,
            redact=endpoint.redact,
            moved=plan.moved,
            digest_of_first=lambda count: tasks_digest(tasks[:count]),
        )
        await asyncio.to_thread(store.__enter__)
        try:
            pending = _pending(tasks, plan, store)
            if plan.on_start is not None:
                plan.on_start(len(tasks) * plan.k, list(store.records.values()))
            table = Table(
                server.url, plan.server_token, settings, endpoint, Supervisor(), new_parser, plan.retries, set()
            )
            player = _Players(plan, table, store)
            if pending:
                await server.prepared()
                await player.play(pending)
            return EvalRun(
                folder,
                store.settings,
                in_order(store.records.values()),
                player.stopped,
                server.left_out,
                dict(store.wasted),
            )
        finally:
            store.__exit__(None, None, None)


def _parser_factory(plan: EvalPlan) -> Any:
    if plan.parser is None:
        return None
    from agent_env.registry import default_registry

    return (plan.registry or default_registry()).load("parser", plan.parser)


def _pending(tasks: list[dict[str, Any]], plan: EvalPlan, store: RunStore) -> list[tuple[dict[str, Any], int]]:
    """What is left to play: all tasks once before any of them twice, so that a run half done says most."""

    def left(task: dict[str, Any], repeat: int) -> bool:
        record = store.records.get((str(task["name"]), repeat))
        return record is None or (plan.retry_failed and record.failure is not None)

    return [(task, repeat) for repeat in range(plan.k) for task in tasks if left(task, repeat)]


class _Players:
    """Plays episodes, several at once."""

    def __init__(self, plan: EvalPlan, table: Table, store: RunStore) -> None:
        self._plan = plan
        self._table = table
        self._store = store
        self._toolsets = Toolsets(
            table.url,
            table.token,
            RowSettings(tool_timeout=plan.tool_timeout, reset_timeout=plan.reset_timeout),
        )
        self._listing = asyncio.Lock()
        self._writing = asyncio.Lock()
        self._spent = sum(record.spent for record in store.records.values()) + sum(store.wasted.values())
        self._failures = 0
        self.stopped: str | None = None

    async def play(self, pending: list[tuple[dict[str, Any], int]]) -> None:
        left = iter(pending)
        async with asyncio.TaskGroup() as group:
            for _ in range(min(self._plan.concurrency, len(pending))):
                group.create_task(self._work(left))

    async def _work(self, left: Iterator[tuple[dict[str, Any], int]]) -> None:
        async with self._table.endpoint.new_client() as client:
            while self._goes_on():
                job = next(left, None)
                if job is None:
                    return
                task, repeat = job
                record = await self._play(client, task, repeat)
                if record.failure is not None and self._table.endpoint.hopeless is not None:
                    self._stop(self._table.endpoint.hopeless)
                    return
                await self._keep(record)

    async def _play(self, client: httpx.AsyncClient, task: dict[str, Any], repeat: int) -> EpisodeRecord:
        try:
            async with self._listing:
                text = await self._toolsets.tools(self._table.settings.split, task)
        except AgentEnvError as error:
            result = Result()
            result.fail(Failure("deploy", str(error)))
            return record_of(result, task, repeat, usage=Usage(), earlier=(), ended=time.time())
        return await play_episode(self._table, client, task, repeat, json.loads(text))

    def _goes_on(self) -> bool:
        budget = self._plan.max_total_tokens
        if budget is not None and self._spent >= budget:
            self._stop(f"the run's budget of {budget} tokens is spent ({self._spent})")
        return self.stopped is None

    def _stop(self, reason: str) -> None:
        if self.stopped is None:
            self.stopped = reason

    async def _keep(self, record: EpisodeRecord) -> None:
        writing = asyncio.get_running_loop().create_task(self._write(record))
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            # The thread goes on; the file must stay open until it is done.
            await asyncio.wait({writing})
            raise
        self._spent += record.spent
        self._failures = self._failures + 1 if record.failure is not None else 0
        if record.failure is not None and 0 < self._plan.stop_after_failures <= self._failures:
            self._stop(f"{self._failures} episodes failed one after another; the last: {record.failure}")
        if self._plan.on_episode is not None:
            self._plan.on_episode(record)

    async def _write(self, record: EpisodeRecord) -> None:
        async with self._writing:
            await asyncio.to_thread(self._store.append, record)
