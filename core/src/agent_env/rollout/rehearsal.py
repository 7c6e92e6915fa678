"""What the rehearsals of trainers share: rows that were really written, groups side by side, events as they come."""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from agent_env.errors import UsageError
from agent_env.plugin.trainer import RehearsalGroup, RehearsalSample
from agent_env.rollout.rows import write_row_files

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

    from agent_env.plugin.trainer import RehearsalPlan
    from agent_env.rollout.rows import RowFormat

    Event = RehearsalSample | RehearsalGroup
    Emit = Callable[[Event], None]

R = TypeVar("R")


async def rehearse(
    plan: RehearsalPlan, trainer: str, play: Callable[[RehearsalPlan, Emit], Awaitable[None]]
) -> AsyncGenerator[Event]:
    """Run ``play`` and yield what it emits, at once; who leaves early cancels it and waits for its end.

    Raises:
        UsageError: the plan asks for a kind of session, and this trainer has but one.
    """
    if plan.session is not None:
        raise UsageError(f"{trainer} has one kind of session, got {plan.session!r}")
    events: asyncio.Queue[Event | None] = asyncio.Queue()

    async def work() -> None:
        await play(plan, events.put_nowait)

    task = asyncio.get_running_loop().create_task(work())
    task.add_done_callback(lambda _: events.put_nowait(None))
    try:
        while (event := await events.get()) is not None:
            yield event
    finally:
        task.cancel()
        await asyncio.wait({task})
    if not task.cancelled() and (error := task.exception()) is not None:
        raise _first(error)


async def read_written_rows(plan: RehearsalPlan, row: RowFormat) -> list[dict[str, Any]]:
    """The plan's rows, written to a file and read again.

    Raises:
        UsageError: there is no such split.
    """
    with tempfile.TemporaryDirectory(prefix="agentenv-rehearse-") as folder:
        files = await write_row_files(plan.url, Path(folder), plan.rows, row, only={plan.split: plan.groups})
        text = await asyncio.to_thread(only_file(plan, files).read_text, encoding="utf-8")
    # Not splitlines: texts may hold what it takes for the end of a line.
    return [json.loads(line) for line in text.split("\n") if line]


def only_file(plan: RehearsalPlan, files: Sequence[Path]) -> Path:
    """The file of the plan's split.

    Raises:
        UsageError: there is no such split.
    """
    if not files:
        raise UsageError(f"the server has no split {plan.split!r}")
    return files[0]


async def play_groups(
    plan: RehearsalPlan,
    rows: Sequence[R],
    play: Callable[[R], Awaitable[RehearsalSample]],
    emit: Emit,
    *,
    kept: Callable[[Sequence[RehearsalSample]], bool],
) -> None:
    """Play ``plan.samples`` episodes of every row, at most ``plan.concurrency`` at once.

    Args:
        plan: the plan.
        rows: one for each group.
        play: plays one episode; what it raises ends the rehearsal.
        emit: gets every sample as it ends, and every group after its samples.
        kept: whether the trainer would keep a group of these samples.
    """
    limit = asyncio.Semaphore(plan.concurrency or max(1, len(rows) * plan.samples))

    async def one(row: R) -> RehearsalSample:
        async with limit:
            sample = await play(row)
        emit(sample)
        return sample

    async def group(row: R) -> None:
        async with asyncio.TaskGroup() as tasks:
            started = [tasks.create_task(one(row)) for _ in range(plan.samples)]
        samples = tuple(task.result() for task in started)
        emit(RehearsalGroup(samples[0].task_id, kept(samples), samples))

    async with asyncio.TaskGroup() as tasks:
        for row in rows:
            tasks.create_task(group(row))


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error
