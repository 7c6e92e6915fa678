"""What Daytona's service does that other services do not, provoked in the stand-in."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.errors import RateLimited, SandboxGone, SandboxTimeout
from agent_env.plugin.sandbox import BuildContext, ImageRef, SandboxSpec
from agent_env.sandboxes.daytona.keeper import Keeper
from agent_env.sandboxes.daytona.provider import DaytonaProvider
from agent_env.testing.sandbox_env import write_env
from agent_env.testing.sandbox_http import get

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from agent_env.sandboxes.daytona.testing.standin import StandIn

    Work = Callable[[DaytonaProvider], Awaitable[None]]

PLAIN = SandboxSpec(image=ImageRef("python:3.11-slim"), serves=False, label="plain")


def run(options: dict[str, Any], work: Work) -> None:
    async def inside() -> None:
        async with DaytonaProvider(**options) as provider:
            await work(provider)

    asyncio.run(inside())


async def until(true: Callable[[], bool], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not true():  # noqa: ASYNC110
        assert time.monotonic() < end, "it did not come to pass"
        await asyncio.sleep(0.05)


def test_nothing_depends_on_auto_stop_and_everything_has_a_time_to_live(
    standin: StandIn, options: dict[str, Any]
) -> None:
    async def work(provider: DaytonaProvider) -> None:
        async with await provider.create(PLAIN) as box:
            asked = standin.boxes[box.id].request
            assert (asked["autoStopInterval"], asked["autoDeleteInterval"]) == (0, 0)
            assert 1 <= asked["ttlMinutes"] <= provider.options.lease_minutes
            assert asked["name"] == f"agentenv-{box.labels['create_id']}"
            assert asked["labels"]["agentenv.id"] == box.labels["create_id"]
            assert not asked.get("public")

    run(options, work)


def test_a_sandbox_that_nobody_renews_ends_by_itself(standin: StandIn, options: dict[str, Any]) -> None:
    async def work(provider: DaytonaProvider) -> None:
        standin.minute_s = 0.5
        await provider.keeper.close()  # as if the owner had been killed
        box = await provider.create(PLAIN)
        await until(lambda: box.id not in standin.boxes)
        with pytest.raises(SandboxGone):
            await box.exec(["true"])

    run({**options, "lease_minutes": 2}, work)


def test_leases_are_renewed_for_as_long_as_the_owner_lives(standin: StandIn, options: dict[str, Any]) -> None:
    async def work(provider: DaytonaProvider) -> None:
        standin.minute_s = 6.0
        before = standin.renewals
        async with await provider.create(PLAIN) as box:
            await until(lambda: standin.renewals > before)
            first = standin.boxes[box.id].destroy_at or 0.0
            await until(lambda: standin.renewals >= before + 3)
            assert (standin.boxes[box.id].destroy_at or 0.0) > first

    async def inside() -> None:
        provider = DaytonaProvider(**options)
        provider.keeper = Keeper(provider, 3.0)
        async with provider:
            await work(provider)

    asyncio.run(inside())


def test_a_delete_that_is_refused_is_asked_for_again(standin: StandIn, options: dict[str, Any]) -> None:
    async def work(provider: DaytonaProvider) -> None:
        box = await provider.create(PLAIN)
        standin.faults.conflicts = 3
        await box.close()
        assert standin.faults.conflicts == 0
        await until(lambda: box.id not in standin.boxes)

    run(options, work)


@pytest.mark.parametrize("retry_after", ["0.2", None, "Mon, 01 Jan 2024 00:00:00 GMT"])
def test_a_create_waits_as_long_as_the_service_asks(
    standin: StandIn, options: dict[str, Any], retry_after: str | None
) -> None:
    async def work(provider: DaytonaProvider) -> None:
        before = standin.created
        standin.faults.rate_limit, standin.faults.retry_after = 2, retry_after
        async with await provider.create(PLAIN) as box:
            assert await box.status() == "running"
        assert (standin.created - before, standin.faults.rate_limit) == (1, 0)

    run(options, work)


def test_a_wait_beyond_the_deadline_is_not_begun(standin: StandIn, options: dict[str, Any]) -> None:
    async def work(provider: DaytonaProvider) -> None:
        standin.faults.rate_limit, standin.faults.retry_after = 9, "120"
        with pytest.raises(RateLimited) as caught:
            await provider.create(PLAIN, timeout=60)
        assert caught.value.retry_after == 120
        assert standin.living == []

    run(options, work)


def test_a_token_that_is_no_good_any_more_is_asked_for_again(
    standin: StandIn, options: dict[str, Any], tmp_path: Path
) -> None:
    spec = SandboxSpec(image=BuildContext(write_env(tmp_path / "tokens")), label="tokens")

    async def work(provider: DaytonaProvider) -> None:
        async with await provider.create(spec) as box:
            old = await box.endpoint()
            assert b"path" in await get(old, "/x")
            assert old.headers["X-Daytona-Preview-Token"] not in repr(old)
            standin.expire_tokens()
            await asyncio.sleep(0.2)
            with pytest.raises(OSError, match="401"):
                await get(old, "/x")
            assert b"path" in await get(await box.endpoint(), "/x")

    run(options, work)


def test_a_slow_create_is_cancelled_at_once_and_leaves_nothing(standin: StandIn, options: dict[str, Any]) -> None:
    async def work(provider: DaytonaProvider) -> None:
        standin.faults.slow_create = 2.0
        before = standin.created
        task = asyncio.ensure_future(provider.create(PLAIN))
        await until(lambda: standin.created > before)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert standin.living, "the service was not in the midst of it"

    run(options, work)
    assert standin.living == []


def test_a_create_past_its_deadline_leaves_nothing(standin: StandIn, options: dict[str, Any]) -> None:
    async def work(provider: DaytonaProvider) -> None:
        standin.faults.late_start = 4.0
        with pytest.raises(SandboxTimeout):
            await provider.create(PLAIN, timeout=2.0)

    run(options, work)
    assert standin.living == []


def test_an_answer_that_is_lost_costs_one_sandbox_and_no_more(standin: StandIn, options: dict[str, Any]) -> None:
    async def work(provider: DaytonaProvider) -> None:
        before = standin.created
        standin.faults.lost_reply = 1
        async with await provider.create(PLAIN) as box:
            assert standin.created - before == 2
            await until(lambda: standin.living == [box.id])

    run(options, work)
