"""What rehearsals share: events as they come, the first error, an early end, and rows with any text in them."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.errors import Failure, UsageError
from agent_env.plugin.trainer import RehearsalGroup, RehearsalPlan, RehearsalSample
from agent_env.rollout.rehearsal import play_groups, read_written_rows, rehearse
from agent_env.testing.small import serve_in_process, small_bundle

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from agent_env.rollout.rehearsal import Emit


def plan(url: str = "http://127.0.0.1:9", **changes: Any) -> RehearsalPlan:
    fields: dict[str, Any] = {"url": url, "split": "train", "groups": 2, "samples": 2, "reply": None}
    return RehearsalPlan(**fields | changes)


async def sample(task_id: str, failure: Failure | None = None) -> RehearsalSample:
    await asyncio.sleep(0)
    return RehearsalSample(task_id, None if failure else 1.0, {}, 0, 0, failure, 1, 1, 0.0)


def kept(samples: Sequence[RehearsalSample]) -> bool:
    return all(one.failure is None for one in samples)


def test_groups_follow_their_samples() -> None:
    async def play(plan: RehearsalPlan, emit: Emit) -> None:
        async def one(row: str) -> RehearsalSample:
            return await sample(row, Failure("env", "it died") if row == "b" else None)

        await play_groups(plan, ["a", "b"], one, emit, kept=kept)

    async def main() -> list[Any]:
        return [event async for event in rehearse(plan(), "X", play)]

    events = asyncio.run(main())
    groups = [event for event in events if isinstance(event, RehearsalGroup)]
    assert {group.task_id: (group.kept, len(group.samples)) for group in groups} == {"a": (True, 2), "b": (False, 2)}
    for group in groups:
        assert all(events.index(group) > events.index(one) for one in group.samples)


def test_no_more_at_once_than_the_plan_says() -> None:
    now = most = 0

    async def one(row: int) -> RehearsalSample:
        nonlocal now, most
        now += 1
        most = max(most, now)
        for _ in range(3):
            await asyncio.sleep(0)
        now -= 1
        return await sample(str(row))

    asyncio.run(play_groups(plan(concurrency=3), range(8), one, lambda _: None, kept=kept))
    assert most == 3


def test_the_first_error_is_raised_bare_behind_what_was_played() -> None:
    async def play(plan: RehearsalPlan, emit: Emit) -> None:
        async def one(row: str) -> RehearsalSample:
            if row == "b":
                await asyncio.sleep(0.05)
                raise UsageError("the rows are wrong")
            return await sample(row)

        await play_groups(plan, ["a", "b"], one, emit, kept=kept)

    async def main() -> list[Any]:
        events: list[Any] = []
        with pytest.raises(UsageError, match="the rows are wrong"):
            async for event in rehearse(plan(), "X", play):
                events += [event]
        return events

    assert len(asyncio.run(main())) == 3


def test_who_leaves_early_cancels_the_rest_and_waits_for_its_end() -> None:
    torn_down = False

    async def play(plan: RehearsalPlan, emit: Emit) -> None:
        nonlocal torn_down
        del plan
        emit(await sample("a"))
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0.05)
            torn_down = True

    async def main() -> None:
        async with aclosing(rehearse(plan(), "X", play)) as events:
            async for _ in events:
                break
        assert torn_down
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_a_kind_of_session_that_there_is_not() -> None:
    async def main() -> None:
        async def play(plan: RehearsalPlan, emit: Emit) -> None:
            raise AssertionError

        with pytest.raises(UsageError, match="X has one kind of session, got 'v2'"):
            _ = [event async for event in rehearse(plan(session="v2"), "X", play)]

    asyncio.run(main())


def test_rows_hold_any_text_and_a_missing_split_is_named(tmp_path: Path) -> None:
    text = "ends of lines to some: \u2028 \u2029 \x85 \x0b \x0c \x1c \r\n"

    def row(split: str, task: Mapping[str, Any], tools: str, /) -> str:
        return json.dumps({"id": task["id"], "text": text}, ensure_ascii=False)

    async def main() -> None:
        bundle = small_bundle(tmp_path / "small")
        async with serve_in_process(bundle) as served:
            rows = await read_written_rows(plan(served.url, groups=1), row)
            assert [one["text"] for one in rows] == [text]
            with pytest.raises(UsageError, match="no split 'nowhere'"):
                await read_written_rows(plan(served.url, split="nowhere"), row)

    asyncio.run(main())
