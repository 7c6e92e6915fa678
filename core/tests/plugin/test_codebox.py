from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, cast

import pytest
from agent_env.errors import CreateFailed, SandboxGone, SandboxUnavailable
from agent_env.plugin.sandbox import CodeRequest, ImageRef, Sandbox, SandboxSpec
from agent_env.plugin.sandboxing import codebox
from agent_env.plugin.sandboxing.codebox import CodeBoxes

if TYPE_CHECKING:
    from pathlib import Path

IMAGE = ImageRef("python")


class Box:
    """A stand-in for a sandbox; the code that runs in it says its number."""

    def __init__(self, number: int, ttl_s: float) -> None:
        self.number = number
        self.closed = False
        self.gone = False
        self.expires_at = time.time() + ttl_s


class Place:
    """Makes them, and says how many."""

    def __init__(self) -> None:
        self.made: list[Box] = []
        self.fails = 0

    async def create(self, spec: SandboxSpec) -> Sandbox:
        assert (spec.serves, spec.network, spec.labels) == (False, "open", {"role": "code"})
        await asyncio.sleep(0.01)
        if self.fails:
            self.fails -= 1
            raise CreateFailed("no")
        self.made.append(Box(len(self.made), spec.ttl_s))
        return cast("Sandbox", self.made[-1])


@pytest.fixture
def request_(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CodeRequest:
    async def run_code_in(box: Any, _: CodeRequest) -> int:
        await asyncio.sleep(0.005)
        if box.gone:
            raise SandboxGone("ended")
        return int(box.number)

    monkeypatch.setattr(codebox, "run_code_in", run_code_in)
    return CodeRequest(tmp_path, "code.py", "f", (), runner=tmp_path / "runner.py", timeout=10.0)


def boxes(place: Place, **settings: Any) -> CodeBoxes[Sandbox]:
    return CodeBoxes(place.create, lambda box: bool(cast("Any", box).closed), **settings)


def test_one_for_each_image_and_a_fresh_one_when_it_ended(request_: CodeRequest) -> None:
    async def go() -> None:
        place = Place()
        codes = boxes(place)
        assert await asyncio.gather(*(codes.run(IMAGE, request_) for _ in range(4))) == [0, 0, 0, 0]
        assert await codes.run(ImageRef("other"), request_) == 1
        place.made[0].gone = True  # from outside, while code wants to run in it
        assert set(await asyncio.gather(*(codes.run(IMAGE, request_) for _ in range(4)))) == {2}
        place.made[2].closed = True
        assert await codes.run(IMAGE, request_) == 3
        place.made[3].expires_at = time.time() + 60  # too short for code and its deadline
        assert await codes.run(IMAGE, request_) == 4

    asyncio.run(go())


def test_a_create_that_failed_is_tried_again_and_one_who_waits_may_go(request_: CodeRequest) -> None:
    async def go() -> None:
        place = Place()
        place.fails = 1
        codes = boxes(place, ttl_s=3600.0)
        results = await asyncio.gather(*(codes.run(IMAGE, request_) for _ in range(2)), return_exceptions=True)
        assert [type(result) for result in results] == [CreateFailed, CreateFailed]
        first, second = (asyncio.create_task(codes.run(IMAGE, request_)) for _ in range(2))
        await asyncio.sleep(0.002)
        first.cancel()
        assert await second == 0
        assert first.cancelled()
        assert place.made[0].expires_at <= time.time() + 3600
        await codes.close()

    asyncio.run(go())


def test_who_waits_when_it_is_closed_is_told(request_: CodeRequest) -> None:
    async def go() -> None:
        place = Place()
        codes = boxes(place)
        waiting = [asyncio.create_task(codes.run(IMAGE, request_)) for _ in range(2)]
        await asyncio.sleep(0.002)
        await codes.close()
        for result in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(result, SandboxUnavailable)
            assert not result.retryable

    asyncio.run(go())
