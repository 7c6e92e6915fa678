from __future__ import annotations

import asyncio

import pytest
from agent_env.errors import CreateFailed, SandboxTimeout, SandboxUnavailable
from agent_env.plugin.sandboxing.creates import Creates


async def made(seconds: float = 0.0) -> str:
    await asyncio.sleep(seconds)
    return "box"


async def stubborn(begun: asyncio.Event) -> str:
    """It is done at the very moment at which it is cancelled."""
    begun.set()
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        return "box"
    return "late"


def test_it_gives_the_sandbox_or_the_error() -> None:
    async def go() -> None:
        creates: Creates[str] = Creates("cloudlet", ended.append)
        assert await creates.run(made(), "env", 5) == "box"

        async def fails() -> str:
            raise CreateFailed("no")

        with pytest.raises(CreateFailed, match="no"):
            await creates.run(fails(), "env", 5)

    ended: list[str] = []
    asyncio.run(go())
    assert ended == []


@pytest.mark.parametrize("how", ["cancelled", "late"])
def test_a_sandbox_that_nobody_waits_for_any_more_is_ended(how: str) -> None:
    ended: list[str] = []

    async def go() -> None:
        creates: Creates[str] = Creates("cloudlet", ended.append)
        begun = asyncio.Event()
        waiting = asyncio.create_task(creates.run(stubborn(begun), "env", 0.05 if how == "late" else 60))
        await begun.wait()
        if how == "cancelled":
            waiting.cancel()
        await asyncio.wait([waiting])
        if how == "cancelled":
            assert waiting.cancelled()
        else:
            assert isinstance(waiting.exception(), SandboxTimeout)
        await creates.close()

    asyncio.run(go())
    assert ended == ["box"]


def test_closed_it_cancels_what_is_under_way_and_takes_nothing_new() -> None:
    cancelled: list[str] = []

    async def slow() -> str:
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.append("x")
        return "box"

    async def go() -> None:
        creates: Creates[str] = Creates("cloudlet", lambda _: None)
        waiting = asyncio.create_task(creates.run(slow(), "env", 60))
        await asyncio.sleep(0.01)
        creates.check_open()
        await creates.close()
        assert cancelled == ["x"]
        with pytest.raises(SandboxUnavailable, match="closed"):
            await waiting
        with pytest.raises(SandboxUnavailable, match="closed"):
            await creates.run(slow(), "env", 60)
        with pytest.raises(SandboxUnavailable, match="closed"):
            creates.check_open()
        await creates.close()

    asyncio.run(go())


def test_a_create_is_waited_for_as_its_provider_says() -> None:
    """Not all time counts: the provider says when it is over."""

    async def go() -> None:
        creates: Creates[str] = Creates("cloudlet", lambda _: None)
        asked: list[float] = []

        async def whole(task: asyncio.Task[str], timeout: float) -> None:
            asked.append(timeout)
            await asyncio.wait([task])

        async def never(task: asyncio.Task[str], timeout: float) -> None:
            asked.append(timeout)

        assert await creates.run(made(0.05), "env", 0.01, wait=whole) == "box"
        with pytest.raises(SandboxTimeout, match="env: not created within 60 s"):
            await creates.run(made(60), "env", 60, wait=never)
        assert asked == [0.01, 60]
        await creates.close()

    asyncio.run(go())
