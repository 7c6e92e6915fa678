"""The order of a task's steps: each runs once, after what it depends on, at the same time as all others that may."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from agent_env.errors import UsageError
from agent_env.plugin.step import StepModel

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

StepT = TypeVar("StepT", bound=StepModel)


def dependencies(steps: Sequence[StepModel]) -> dict[str, set[str]]:
    """The ids that each step waits for. ``depends_on`` absent = every earlier step, empty = none.

    Raises:
        UsageError: a step depends on itself, in a circle, or on a step that the task does not have.
    """
    earlier: list[str] = []
    needs: dict[str, set[str]] = {}
    for step in steps:
        needs[step.id] = set(earlier if step.depends_on is None else step.depends_on)
        earlier.append(step.id)
    for step_id, wanted in needs.items():
        if unknown := sorted(wanted - needs.keys()):
            raise UsageError(f"step {step_id!r} depends on {unknown[0]!r}, which is no step of the task")
    left = dict(needs)
    while ready := [step_id for step_id, wanted in left.items() if not wanted & left.keys()]:
        for step_id in ready:
            del left[step_id]
    if left:
        raise UsageError(f"the steps {', '.join(map(repr, left))} depend on each other in a circle")
    return needs


async def run_graph(steps: Sequence[StepT], run: Callable[[StepT], Awaitable[None]]) -> None:
    """Run every step once. The first step that raises cancels the others, and what it raised is raised here."""
    needs = dependencies(steps)
    by_id = {step.id: step for step in steps}
    followers: dict[str, list[str]] = {step_id: [] for step_id in by_id}
    for step_id, wanted in needs.items():
        for name in wanted:
            followers[name].append(step_id)

    finished = 0

    async def one(step: StepT) -> None:
        nonlocal finished
        await run(step)
        finished += 1
        for name in followers[step.id]:
            needs[name].discard(step.id)
            if not needs[name]:
                group.create_task(one(by_id[name]))

    try:
        async with asyncio.TaskGroup() as group:
            for step in [step for step in steps if not needs[step.id]]:
                group.create_task(one(step))
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    if finished != len(by_id):  # a step that ends as cancelled without being cancelled would pass for done
        raise RuntimeError(f"{len(by_id) - finished} steps did not run to their end")
