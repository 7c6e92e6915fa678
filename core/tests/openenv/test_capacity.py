"""Room for sessions: refused as stock servers do it, or waited for in line."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from agent_env.openenv.server.slots import Slots
from hypothesis import given
from hypothesis import strategies as st

FULL = {
    "message": "Server at capacity: 1/1 sessions active. Cannot accept new connections.",
    "code": "CAPACITY_REACHED",
    "active_sessions": 1,
    "max_sessions": 1,
}


def test_a_full_server_refuses_as_stock_servers_do(serve: Any, raw: Any, until: Any, world: Any) -> None:
    async def main(url: str) -> None:
        async with raw(url) as ws:
            await ws.reset()
            async with raw(url) as second:
                assert await second.read() == {"type": "error", "data": FULL}
                assert await second.closed() == 1000
            async with httpx.AsyncClient(base_url=url, trust_env=False) as http:
                answer = await http.post("/reset", json={})
                assert answer.status_code == 503
                assert answer.headers["retry-after"] == "1"
                assert answer.json()["code"] == "CAPACITY_REACHED"
                assert (await http.post("/step", json={"action": {"type": "list_tools"}})).status_code == 503
                create = {"jsonrpc": "2.0", "id": 1, "method": "openenv/session/create"}
                error = (await http.post("/mcp", json=create)).json()["error"]
                assert error["code"] == -32000
                assert error["data"] == {"active_sessions": 1, "max_sessions": 1}
            async with raw(url, "/mcp") as third:
                assert (await third.read())["error"]["code"] == -32000
        await until(lambda: world.left() == 0)
        async with raw(url) as ws:
            assert (await ws.reset())["type"] == "observation"

    asyncio.run(main(serve(max_concurrent_envs=1)))


def test_who_waits_is_served_first_come_first_served(serve: Any, raw: Any) -> None:
    async def main(url: str) -> None:
        order: list[int] = []

        async def player(number: int, ready: asyncio.Event) -> None:
            async with raw(url, "/ws?wait=30") as ws:
                await ws.send({"type": "reset"})
                await ws.ask({"type": "state"}, 0.1) if number < 0 else None
                ready.set()
                assert (await ws.read())["type"] == "observation"
                order.append(number)

        async with raw(url) as holder:
            await holder.reset()
            players: list[asyncio.Task[None]] = []
            for number in range(4):
                ready = asyncio.Event()
                players.append(asyncio.create_task(player(number, ready)))
                await ready.wait()
                async with raw(url) as refused:  # also shows that the reset before it was read
                    assert (await refused.read())["data"]["code"] == "CAPACITY_REACHED"
        await asyncio.gather(*players)
        assert order == [0, 1, 2, 3]

    asyncio.run(main(serve(max_concurrent_envs=1)))


def test_the_wait_ends_at_its_deadline(serve: Any, raw: Any) -> None:
    async def main(url: str) -> None:
        async with raw(url) as holder:
            await holder.reset()
            for wait in ("0.05", "0"):
                async with raw(url, f"/ws?wait={wait}") as ws:
                    assert await ws.ask({"type": "reset"}) == {"type": "error", "data": FULL}
                    assert await ws.closed() == 1000

    asyncio.run(main(serve(max_concurrent_envs=1)))


def test_a_full_server_says_so_once(serve: Any, raw: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def main(url: str) -> None:
        async with raw(url) as holder:
            await holder.reset()
            for path in ("/ws", "/ws?wait=0.01", "/ws?wait=0.01"):
                async with raw(url, path) as ws:
                    if "wait" in path:
                        await ws.send({"type": "reset"})
                    assert (await ws.read())["data"]["code"] == "CAPACITY_REACHED"

    asyncio.run(main(serve(max_concurrent_envs=1)))
    said = [record.getMessage() for record in caplog.records if "the server is full" in record.getMessage()]
    assert len(said) == 1
    assert said[0].startswith("the server is full: 1 of 1 sessions active, 0 wait in line; a larger")


def test_who_leaves_the_line_holds_up_nobody(serve: Any, raw: Any) -> None:
    async def main(url: str) -> None:
        async with raw(url) as holder:
            await holder.reset()
            async with raw(url, "/ws?wait=30") as gone:
                await gone.send({"type": "reset"})
                async with raw(url) as refused:
                    await refused.read()
                gone.socket.transport.abort()
            async with raw(url, "/ws?wait=30") as again:  # a later reset takes the place of an earlier one
                await again.send({"type": "reset"})
                await again.send({"type": "reset"})
                assert (await again.read())["data"]["code"] == "EXECUTION_ERROR"
                await holder.send({"type": "close"})
                assert (await again.read())["type"] == "observation"

    asyncio.run(main(serve(max_concurrent_envs=1)))


@pytest.mark.parametrize("wait", ["soon", "-1", "nan", "inf", ""])
def test_a_wait_that_is_no_time_is_refused(serve: Any, raw: Any, wait: str) -> None:
    async def main(url: str) -> None:
        async with raw(url, f"/ws?wait={wait}") as ws:
            assert (await ws.read())["data"]["code"] == "SESSION_ERROR"
            assert await ws.closed() == 1000

    asyncio.run(main(serve()))


@given(
    limit=st.integers(1, 3),
    moves=st.lists(st.sampled_from(["take", "wait", "release", "cancel", "expire", "settle"]), max_size=60),
)
def test_slots_are_never_lost_nor_given_twice(limit: int, moves: list[str]) -> None:
    async def main() -> None:
        slots = Slots(limit)
        held = 0
        line: list[asyncio.Task[bool]] = []

        async def settle() -> None:
            nonlocal held, line
            for _ in range(4):
                await asyncio.sleep(0)
            served = [task for task in line if task.done()]
            assert served == line[: len(served)], "somebody was overtaken"
            held += len(served)
            line = line[len(served) :]

        for move in moves:
            if move == "take":
                held += slots.take()
            elif move == "wait":
                line.append(asyncio.create_task(slots.wait(60)))
            elif move == "expire":
                held += await slots.wait(0)
            elif move == "cancel" and line:
                gone = line.pop()
                held += gone.done()
                gone.cancel()
            elif move == "release" and held:
                slots.release()
                held -= 1
            elif move == "settle":  # without it, hand-overs and what follows fall together
                await settle()
            assert slots.active <= limit
        await settle()
        assert slots.waiting == len(line)
        assert slots.active == held <= limit
        assert not line or held == limit
        for task in line:
            task.cancel()
        await asyncio.gather(*line, return_exceptions=True)
        assert (slots.waiting, slots.active) == (0, held)

    asyncio.run(main())
