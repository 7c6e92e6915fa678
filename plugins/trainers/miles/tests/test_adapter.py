"""Rehearsals: groups played through the functions that Miles loads."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest
from agent_env.errors import UsageError
from agent_env.plugin.trainer import RehearsalGroup, RehearsalPlan, RehearsalSample, RowSettings
from agent_env.registry import default_registry
from agent_env.testing.standin import call, say
from agent_env.training.miles.adapter import MilesAdapter

SETTINGS = RowSettings(tool_timeout=5, reset_timeout=10, model_timeout=10)


def find(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Any:
    return call("look") if len(messages) == 2 else say("xyzzy")


def forget(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Any:
    return say('<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>')


def die(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Any:
    return call("die") if len(messages) == 2 else say("xyzzy")


async def rehearse(url: str, reply: Any, **changes: Any) -> list[RehearsalSample | RehearsalGroup]:
    fields: dict[str, Any] = {"split": "train", "groups": 2, "samples": 3, "rows": SETTINGS, **changes}
    return [event async for event in MilesAdapter().rehearse(RehearsalPlan(url=url, reply=reply, **fields))]


def test_it_is_found_by_name() -> None:
    assert isinstance(default_registry().load("trainer", "miles")(), MilesAdapter)
    assert default_registry().info("trainer", "miles").summary


@pytest.mark.parametrize("session", [None, "v1", "v2"])
def test_groups_are_played_and_kept(serve: Any, session: str | None) -> None:
    async def main() -> None:
        async with serve() as served:
            events = await rehearse(served.url, find, session=session)
            samples = [event for event in events if isinstance(event, RehearsalSample)]
            groups = [event for event in events if isinstance(event, RehearsalGroup)]
            assert (len(samples), len(groups)) == (6, 2)
            assert all(events.index(sample) < events.index(group) for group in groups for sample in group.samples)
            by_task = {group.task_id.rpartition("/")[2]: group for group in groups}
            assert set(by_task) == {"find", "recall"}
            found = by_task["find"].samples[0]
            assert (by_task["find"].kept, found.reward, dict(found.scores)) == (True, 1.0, {"word": 1.0})
            assert (found.tool_calls, found.invalid_calls, found.turns, found.failure) == (1, 0, 2, None)
            assert found.trained_tokens > 0
            assert found.warnings == ()
            assert found.timings["deploy_s"] >= 0
            assert [message["role"] for message in found.transcript] == [
                "system",
                "user",
                "assistant",
                "tool",
                "assistant",
            ]
            # The reply to the first prompt does not answer the second.
            assert [sample.reward for sample in by_task["recall"].samples] == [0.0, 0.0, 0.0]
            await served.quiet()

    asyncio.run(main())


@pytest.mark.parametrize("session", ["v1", "v2"])
def test_failed_groups_are_dropped(serve: Any, session: str) -> None:
    async def main() -> None:
        async with serve() as served:
            events = await rehearse(served.url, die, session=session, split="eval", groups=1, samples=2)
            group = events[-1]
            assert isinstance(group, RehearsalGroup)
            assert group.kept is False
            for sample in group.samples:
                assert sample.reward is None
                assert sample.failure is not None
                assert sample.failure.kind == "env"
            await served.quiet()

    asyncio.run(main())


def test_unparsed_calls_are_a_warning(serve: Any) -> None:
    async def main() -> None:
        async with serve() as served:
            events = await rehearse(served.url, forget, split="eval", groups=1, samples=1)
            sample = events[0]
            assert isinstance(sample, RehearsalSample)
            assert "--tool-call-parser qwen25" in sample.warnings[0]

    asyncio.run(main())


def test_an_early_end_leaves_nothing_running(serve: Any) -> None:
    async def main() -> None:
        async with serve() as served:
            before = asyncio.all_tasks()
            plan = RehearsalPlan(
                url=served.url, split="train", groups=2, samples=4, reply=find, rows=SETTINGS, concurrency=1
            )
            async with aclosing(MilesAdapter().rehearse(plan)) as events:
                async for _ in events:
                    break
            await served.quiet()
            left = {task for task in asyncio.all_tasks() - before if "rehearse" in repr(task) or "_play" in repr(task)}
            assert not left

    asyncio.run(main())


def test_wrong_plans_are_named(serve: Any) -> None:
    async def main() -> None:
        async with serve() as served:
            with pytest.raises(UsageError, match="v3"):
                await rehearse(served.url, find, session="v3")
            with pytest.raises(UsageError, match="nowhere"):
                await rehearse(served.url, find, split="nowhere")

    asyncio.run(main())
