"""The order of steps, for any graph."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

import pytest
from agent_env.episode.graph import dependencies, run_graph
from agent_env.errors import UsageError
from agent_env.plugin.step import StepModel
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Sequence


def step(name: str, depends_on: Sequence[str] | None = None) -> StepModel:
    return StepModel(
        id=name, type="t", depends_on=cast("tuple[str, ...] | None", None if depends_on is None else list(depends_on))
    )


@st.composite
def graphs(draw: st.DrawFn) -> list[StepModel]:
    """A list of steps that may be in any order, with no circle."""
    size = draw(st.integers(1, 8))
    names = [f"s{index}" for index in range(size)]
    order = draw(st.permutations(names))
    steps: list[StepModel] = []
    for index, name in enumerate(names):
        rank = order.index(name)
        allowed = order[:rank]
        if set(names[:index]) <= set(allowed) and draw(st.booleans()):
            steps.append(step(name))
        else:
            steps.append(step(name, draw(st.lists(st.sampled_from(allowed), unique=True)) if allowed else []))
    return steps


@given(graphs())
def test_each_step_runs_once_after_what_it_depends_on(steps: list[StepModel]) -> None:
    needs = dependencies(steps)
    done: list[str] = []

    async def run(one: StepModel) -> None:
        assert needs[one.id] <= set(done)
        await asyncio.sleep(0)
        done.append(one.id)

    asyncio.run(run_graph(steps, run))
    assert sorted(done) == sorted(one.id for one in steps)


@given(graphs(), st.data())
def test_steps_that_may_overlap_do(steps: list[StepModel], data: st.DataObject) -> None:
    """Hold one step: everything that does not depend on it ends meanwhile."""
    needs = dependencies(steps)
    held = data.draw(st.sampled_from(steps)).id
    after = {held}
    for _ in steps:
        after |= {name for name, wanted in needs.items() if wanted & after}
    free = {one.id for one in steps} - after

    async def play() -> None:
        done: set[str] = set()
        all_free = asyncio.Event()

        async def run(one: StepModel) -> None:
            if one.id == held and free:
                await asyncio.wait_for(all_free.wait(), 10)
            done.add(one.id)
            if free <= done:
                all_free.set()

        await run_graph(steps, run)

    asyncio.run(play())


@given(graphs(), st.data())
def test_a_step_that_fails_stops_the_rest(steps: list[StepModel], data: st.DataObject) -> None:
    bad = data.draw(st.sampled_from(steps)).id
    running: set[str] = set()
    needs = dependencies(steps)
    after = {bad}
    for _ in steps:
        after |= {name for name, wanted in needs.items() if wanted & after}

    async def run(one: StepModel) -> None:
        assert one.id == bad or one.id not in after
        running.add(one.id)
        try:
            if one.id == bad:
                raise ValueError(one.id)
            if not needs[bad] & {one.id} and one.id not in _before(bad, needs):
                await asyncio.sleep(3600)
        finally:
            running.discard(one.id)

    with pytest.raises(ValueError, match=bad):
        asyncio.run(run_graph(steps, run))
    assert running == set()


def _before(name: str, needs: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    todo = [name]
    while todo:
        for earlier in needs[todo.pop()] - found:
            found.add(earlier)
            todo.append(earlier)
    return found


def test_absent_means_after_all_and_empty_means_root() -> None:
    assert dependencies([step("a"), step("b", []), step("c")]) == {"a": set(), "b": set(), "c": {"a", "b"}}


def test_circles_and_unknown_steps_are_refused() -> None:
    with pytest.raises(UsageError, match="in a circle"):
        dependencies([step("a", ["b"]), step("b", ["a"])])
    with pytest.raises(UsageError, match="in a circle"):
        dependencies([step("a", ["a"])])
    with pytest.raises(UsageError, match="'nope', which is no step"):
        dependencies([step("a", ["nope"])])


def test_a_step_that_only_pretends_to_be_cancelled_does_not_pass_for_done() -> None:
    async def run(one: StepModel) -> None:
        if one.id == "a":
            raise asyncio.CancelledError

    with pytest.raises(RuntimeError, match="did not run to their end"):
        asyncio.run(run_graph([step("a"), step("b")], run))
