"""What happens while a request is being played."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from agent_env.openenv import run as run_module

if TYPE_CHECKING:
    import pytest


def test_replies_come_in_the_order_of_their_requests(serve: Any, raw: Any, call: Any) -> None:
    async def main(url: str) -> None:
        async with raw(url) as ws:
            await ws.send({"type": "reset", "data": {"split": "single", "index": 0}})
            await ws.send(call("slow", {"seconds": 0.2, "name": "a"}))
            await ws.send("nonsense")
            await ws.send(call("add", {"a": 1, "b": 1}))
            await ws.send({"type": "state"})
            await ws.send(b"binary")
            await ws.send(call("slow", {"seconds": 0, "name": "b"}))
            replies = [await ws.read() for _ in range(7)]
            kinds = [reply["type"] for reply in replies]
            assert kinds == ["observation", "observation", "error", "observation", "state", "error", "observation"]
            data = [replies[place]["data"]["observation"]["result"]["data"] for place in (1, 3, 6)]
            assert data == ["slept a", "2", "slept b"]

    asyncio.run(main(serve()))


def test_a_reset_cancels_a_running_call_and_what_waits(serve: Any, raw: Any, call: Any, world: Any, until: Any) -> None:
    async def main(url: str) -> None:
        async with raw(url) as ws:
            await ws.reset()
            await ws.send(call("slow", {"seconds": 600, "name": "long"}))
            await ws.send(call("add", {"a": 1, "b": 1}))
            await until(lambda: world.began == ["long"])
            await ws.send({"type": "reset", "data": {"split": "single", "index": 1}})
            first, second, third = [await ws.read() for _ in range(3)]
            assert first["data"]["code"] == second["data"]["code"] == "EXECUTION_ERROR"
            assert "given up" in first["data"]["message"]
            assert third["data"]["metadata"]["prompt"] == "First."
            assert world.cancelled == 1
            assert (await ws.call("add", a=2, b=2))["data"]["observation"]["result"]["data"] == "4"

    asyncio.run(main(serve()))


def test_a_reset_cancels_a_reset(serve: Any, raw: Any, world: Any, until: Any) -> None:
    world.deploy_seconds = 600.0

    async def main(url: str) -> None:
        async with raw(url) as ws:
            await ws.send({"type": "reset"})
            await until(lambda: world.deploys == 1)
            world.deploy_seconds = 0.0
            await ws.send({"type": "reset", "data": {"split": "single", "index": 1}})
            assert (await ws.read())["type"] == "error"
            assert (await ws.read())["data"]["metadata"]["prompt"] == "First."

    asyncio.run(main(serve()))


def test_many_resets_at_once_play_the_last_one(serve: Any, raw: Any) -> None:
    async def main(url: str) -> None:
        async with raw(url) as ws:
            for index in (0, 1, 0, 1):
                await ws.send({"type": "reset", "data": {"split": "single", "index": index}})
            replies = [await ws.read() for _ in range(4)]
            assert replies[-1]["data"]["metadata"]["prompt"] == "First."
            assert (await ws.call("add", a=2, b=2))["data"]["observation"]["result"]["data"] == "4"

    asyncio.run(main(serve()))


def test_a_close_cancels_a_running_call(serve: Any, raw: Any, call: Any, world: Any, until: Any) -> None:
    async def main(url: str) -> None:
        async with raw(url) as ws:
            await ws.reset()
            await ws.send(call("slow", {"seconds": 600, "name": "long"}))
            await until(lambda: world.began == ["long"])
            await ws.send({"type": "close"})
            assert await ws.closed() == 1000
            await until(lambda: world.left() == 0)
            assert world.cancelled == 1

    asyncio.run(main(serve()))


def test_a_dropped_socket_ends_its_episode_during_a_call(
    serve: Any, raw: Any, call: Any, world: Any, until: Any
) -> None:
    async def main(url: str) -> None:
        async with raw(url) as ws, raw(url) as other:
            await other.reset()
            await ws.reset()
            await ws.send(call("slow", {"seconds": 600, "name": "long"}))
            await until(lambda: world.began == ["long"])
            ws.socket.transport.abort()
            await until(lambda: world.left() == 1 and world.cancelled == 1)
            async with raw(url) as third:  # the slot is free again
                assert (await third.reset())["type"] == "observation"
            assert (await other.call("add", a=2, b=2))["data"]["observation"]["result"]["data"] == "4"

    asyncio.run(main(serve(max_concurrent_envs=2)))


def test_a_dropped_socket_ends_a_deploy(serve: Any, raw: Any, world: Any, until: Any) -> None:
    world.deploy_seconds = 600.0

    async def main(url: str) -> None:
        async with raw(url) as ws:
            await ws.send({"type": "reset"})
            await until(lambda: world.deploys == 1)
            ws.socket.transport.abort()
        await until(lambda: world.engine.open_episodes == 0)

    asyncio.run(main(serve()))


def test_too_many_requests_in_flight_end_the_session_only(serve: Any, raw: Any, call: Any) -> None:
    async def main(url: str) -> None:
        async with raw(url) as ws, raw(url) as other:
            await other.reset()
            await ws.reset()
            await ws.send(call("slow", {"seconds": 600}))
            for _ in range(40):
                await ws.send({"type": "state"})
            assert (await ws.read())["data"]["code"] == "SESSION_ERROR"
            assert await ws.closed() == 1008
            assert (await other.call("add", a=2, b=2))["type"] == "observation"

    asyncio.run(main(serve()))


def test_a_client_that_reads_nothing_holds_up_nobody(serve: Any, raw: Any, call: Any, world: Any, until: Any) -> None:
    async def main(url: str) -> None:
        async with raw(url) as other:
            async with raw(url) as ws:
                await ws.reset()
                ws.socket.transport.pause_reading()
                for _ in range(20):
                    await ws.send(call("big", {"size": 3_000_000}))
                await other.reset()
                assert (await other.call("add", a=2, b=2))["type"] == "observation"
                ws.socket.transport.abort()
            await until(lambda: world.left() == 1)

    asyncio.run(main(serve()))


def test_a_half_open_client_is_noticed(
    serve: Any, raw: Any, world: Any, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "PING_INTERVAL_S", 0.1)
    monkeypatch.setattr(run_module, "PING_TIMEOUT_S", 0.2)

    async def main(url: str) -> None:
        async with raw(url) as alive, raw(url) as silent:
            await alive.reset()
            await silent.reset()
            silent.socket.transport.pause_reading()  # it answers no ping any more, and never says goodbye
            await until(lambda: world.left() == 1)
            assert (await alive.call("add", a=1, b=1))["type"] == "observation"
            silent.socket.transport.abort()

    asyncio.run(main(serve()))


def test_what_somebody_gave_up_is_no_failure_in_the_log(
    serve: Any, raw: Any, call: Any, world: Any, until: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")

    async def main(url: str) -> None:
        async with raw(url) as ws:
            await ws.reset()
            await ws.send(call("slow", {"seconds": 600, "name": "gone"}))
            await until(lambda: "gone" in world.began)
        async with raw(url) as ws:
            await ws.reset()
        async with raw(url) as ws:
            await ws.reset()
            assert (await ws.call("die"))["data"]["done"]
        await until(lambda: world.left() == 0)

    asyncio.run(main(serve()))
    failed = [record.getMessage() for record in caplog.records if " failed: " in record.getMessage()]
    assert len(failed) == 1
    assert "failed: env: " in failed[0]
