from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING

import pytest
from agent_env.errors import BuildFailed, SandboxUnavailable
from agent_env.plugin.sandboxing.once import Once

if TYPE_CHECKING:
    from collections.abc import Callable


def test_it_is_made_once_for_all_and_each_hears_of_it() -> None:
    made: list[str] = []
    heard: dict[int, list[str]] = {0: [], 1: [], 2: []}

    async def make(say: Callable[[str], None]) -> str:
        made.append("x")
        await asyncio.sleep(0.01)
        say("half")
        await asyncio.sleep(0.01)
        return "image"

    async def go() -> None:
        once: Once[str, str] = Once("cloudlet")
        results = await asyncio.gather(*(once.get("a", make, heard[number].append) for number in range(3)))
        assert results == ["image"] * 3
        assert await once.get("a", make) == "image"
        once.forget(lambda key, value: (key, value) == ("a", "image"))
        assert await once.get("a", make) == "image"

    asyncio.run(go())
    assert made == ["x", "x"]
    assert list(heard.values()) == [["half"]] * 3


def test_what_failed_is_made_again() -> None:
    outcomes = [BuildFailed("no disk"), None]

    async def make(_: Callable[[str], None]) -> str:
        await asyncio.sleep(0)
        error = outcomes.pop(0)
        if error is not None:
            raise error
        return "image"

    async def go() -> None:
        once: Once[str, str] = Once("cloudlet")
        results = await asyncio.gather(once.get("a", make), once.get("a", make), return_exceptions=True)
        assert [type(result) for result in results] == [BuildFailed, BuildFailed]
        assert await once.get("a", make) == "image"

    asyncio.run(go())


def test_one_who_waits_may_go_and_an_error_that_nobody_waits_for_is_no_noise() -> None:
    said: list[str] = []

    async def go() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context["message"]))
        once: Once[str, str] = Once("cloudlet")
        begun, end = asyncio.Event(), asyncio.Event()

        async def make(_: Callable[[str], None]) -> str:
            begun.set()
            await end.wait()
            raise BuildFailed("no disk")

        waiting = asyncio.create_task(once.get("a", make))
        await begun.wait()
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()
        end.set()
        for _ in range(5):
            await asyncio.sleep(0)
        del waiting
        gc.collect()

    asyncio.run(go())
    assert said == []


def test_closed_it_gives_up_and_takes_nothing_new() -> None:
    async def go() -> None:
        once: Once[str, str] = Once("cloudlet")

        async def make(_: Callable[[str], None]) -> str:
            await asyncio.sleep(60)
            return "image"

        waiting = asyncio.create_task(once.get("a", make))
        await asyncio.sleep(0.01)
        await once.close()
        for asking in (waiting, once.get("b", make)):
            with pytest.raises(SandboxUnavailable, match="cloudlet provider is closed"):
                await asking

    asyncio.run(go())
