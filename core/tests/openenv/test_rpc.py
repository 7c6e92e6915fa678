"""JSON-RPC on ``/mcp``, over HTTP and WebSocket, and the sessions that it creates."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest


class Rpc:
    """An HTTP client of ``/mcp``."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http

    async def __call__(self, method: str, **params: Any) -> dict[str, Any]:
        body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
        answer = await self.http.post("/mcp", json=body)
        assert answer.status_code == 200
        got: dict[str, Any] = answer.json()
        assert (got["jsonrpc"], got["id"]) == ("2.0", 7)
        return got


@pytest.fixture
def rpc() -> Any:
    class Open:
        def __init__(self, url: str) -> None:
            self.http = httpx.AsyncClient(base_url=url, trust_env=False, timeout=30)

        async def __aenter__(self) -> Rpc:
            return Rpc(self.http)

        async def __aexit__(self, *_: object) -> None:
            await self.http.aclose()

    return Open


def test_a_session_over_both_transports(serve: Any, raw: Any, rpc: Any, world: Any, until: Any) -> None:
    async def main(url: str) -> None:
        async with rpc(url) as ask:
            session = (await ask("openenv/session/create"))["result"]["session_id"]
            async with raw(url, f"/ws?session_id={session}") as ws:
                await ws.reset()
                listed = (await ask("tools/list", session_id=session))["result"]["tools"]
                assert listed[0] == {
                    "name": "add",
                    "title": None,
                    "description": "The tool add",
                    "inputSchema": {"type": "object"},
                    "outputSchema": None,
                    "icons": None,
                    "annotations": None,
                    "meta": None,
                    "execution": None,
                }
                called = await ask("tools/call", session_id=session, name="add", arguments={"a": 1, "b": 2})
                assert called["result"] == {
                    "content": [{"type": "text", "text": "3"}],
                    "structured_content": None,
                    "meta": None,
                    "data": "3",
                    "is_error": False,
                }
                assert (await ws.ask({"type": "state"}))["data"]["step_count"] == 1
                async with raw(url, f"/ws?session_id={session}") as second:
                    assert (await second.read())["data"]["code"] == "SESSION_ERROR"
                    assert await second.closed() == 1000
                closing = (await ask("openenv/session/close", session_id=session))["result"]
                assert closing == {"session_id": session, "closed": False, "closing": True}
                assert (await ws.call("add", a=1, b=1))["type"] == "observation"
            await until(lambda: world.left() == 0)
            assert (await ask("openenv/session/close", session_id=session))["error"]["code"] == -32602

    asyncio.run(main(serve(max_concurrent_envs=1)))


def test_detaching_leaves_the_session_alive(serve: Any, raw: Any, rpc: Any, world: Any) -> None:
    async def main(url: str) -> None:
        async with rpc(url) as ask:
            session = (await ask("openenv/session/create"))["result"]["session_id"]
            async with raw(url, f"/ws?session_id={session}") as ws:
                await ws.reset()
            called = await ask("tools/call", session_id=session, name="end_turn", arguments={"response": "done"})
            assert called["result"]["data"] == {"done": True, "reward": 1.0, "scores": {"grade": 1.0}}
            closed = (await ask("openenv/session/close", session_id=session))["result"]
            assert closed == {"session_id": session, "closed": True}
            assert world.left() == 0
            unknown = (await ask("tools/list", session_id=session))["error"]
            assert (unknown["code"], unknown["message"]) == (-32602, f"Unknown session_id: {session}")
            async with raw(url, f"/ws?session_id={session}") as ws:
                assert (await ws.read())["data"]["code"] == "SESSION_ERROR"

    asyncio.run(main(serve()))


def test_a_session_that_nobody_uses_ends(serve: Any, raw: Any, rpc: Any, world: Any, until: Any) -> None:
    async def main(url: str) -> None:
        async with rpc(url) as ask:
            held = (await ask("openenv/session/create"))["result"]["session_id"]
            async with raw(url, f"/ws?session_id={held}") as ws:
                await ws.reset()
                busy = (await ask("openenv/session/create", split="single", index=0))["result"]["session_id"]
                long = {"name": "slow", "arguments": {"seconds": 3}}
                running = asyncio.create_task(ask("tools/call", session_id=busy, **long))
                idle = (await ask("openenv/session/create", split="single", index=0))["result"]["session_id"]
                assert (await ask("tools/list", session_id=idle))["result"]["tools"]
                await until(lambda: world.deploys == 3)
                await until(lambda: world.left() == 2)  # the idle one went, neither the held nor the busy one
                assert (await ask("tools/list", session_id=idle))["error"]["code"] == -32602
                assert (await running)["result"]["data"] == "slept "
                assert (await ws.call("add", a=1, b=1))["type"] == "observation"
            await until(lambda: world.left() == 0)

    asyncio.run(main(serve(session_lease=1.0)))


def test_tools_without_a_session(serve: Any, rpc: Any, world: Any) -> None:
    async def main(url: str) -> None:
        async with rpc(url) as ask:
            for _ in range(3):
                assert (await ask("tools/list"))["result"]["tools"][-1]["name"] == "end_turn"
            assert world.deploys == 1
            called = await ask("tools/call", name="add", arguments={"a": 1, "b": 2}, split="single", index=0)
            assert called["result"]["data"] == "3"
            assert world.left() == 0

    asyncio.run(main(serve(max_concurrent_envs=1)))


def test_errors(serve: Any, rpc: Any, world: Any) -> None:
    async def main(url: str) -> None:
        async with rpc(url) as ask:

            async def code(method: str, **params: Any) -> int:
                return int((await ask(method, **params))["error"]["code"])

            assert await code("initialize") == -32601
            assert await code("notifications/initialized") == -32601
            assert await code("tools/call") == -32602
            assert await code("tools/call", name=3) == -32602
            assert await code("openenv/session/close") == -32602
            assert await code("openenv/session/create", split="single") == -32602
            session = (await ask("openenv/session/create"))["result"]["session_id"]
            assert await code("tools/call", name="add", session_id=session) == -32603  # no episode
            session = (await ask("openenv/session/create", split="single", index=0))["result"]["session_id"]
            assert await code("tools/call", name="nothing", session_id=session) == -32602
            assert await code("tools/call", name="add", arguments=[1], session_id=session) == -32602
            refused = (await ask("tools/call", name="refuse", session_id=session))["error"]
            assert (refused["code"], refused["message"]) == (-32603, "not today")
            dead = (await ask("tools/call", name="die", session_id=session))["error"]
            assert dead["code"] == -32603
            assert dead["data"]["metadata"]["agentenv"]["failure"]["kind"] == "env"
            for body in (b"", b"{", b"\xff"):
                assert (await ask.http.post("/mcp", content=body)).json() == {
                    "jsonrpc": "2.0",
                    "id": None,
                    "error": {"code": -32700, "message": "Parse error", "data": None},
                }
            bad: list[Any] = [{}, [], 3, {"jsonrpc": "2.0"}, {"jsonrpc": "2.0", "method": "x", "extra": 1}]
            for item in [*bad, {"jsonrpc": "2.0", "method": "x", "id": 1.5}, {"jsonrpc": "1.0", "method": "x"}]:
                assert (await ask.http.post("/mcp", json=item)).json()["error"]["code"] == -32600
            assert (await ask.http.get("/mcp")).status_code == 405

    asyncio.run(main(serve()))


def test_the_websocket_plays_the_task_of_its_query(serve: Any, raw: Any, world: Any) -> None:
    async def main(url: str) -> None:
        async with raw(url, "/mcp?split=single&index=2&seed=5") as ws:
            request: dict[str, Any] = {"jsonrpc": "2.0", "id": "a", "method": "tools/call"}
            request["params"] = {"name": "add", "arguments": {"a": 4, "b": 4}}
            assert (await ws.ask(request))["result"]["data"] == "8"
            assert (await ws.ask("nonsense"))["error"]["code"] == -32700
            assert (await ws.ask([1]))["error"]["code"] == -32600
            assert (await ws.ask(b"binary"))["error"]["code"] == -32700
            create = {"jsonrpc": "2.0", "id": 1, "method": "openenv/session/create"}
            session = (await ws.ask(create))["result"]["session_id"]
            close = {"jsonrpc": "2.0", "id": 1, "method": "openenv/session/close", "params": {"session_id": session}}
            assert (await ws.ask(close))["error"]["code"] == -32600
        async with raw(url, "/mcp?split=single") as ws:
            assert (await ws.read())["error"]["code"] == -32000
        async with raw(url, "/mcp") as ws:
            assert (await ws.ask({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}))["result"]["tools"]
            assert (await ws.ask(request))["error"]["code"] == -32603

    asyncio.run(main(serve()))


def test_rpc_inside_a_session(serve: Any, raw: Any) -> None:
    async def main(url: str) -> None:
        async with raw(url) as ws:
            await ws.reset()
            request = {"jsonrpc": "2.0", "id": 3, "method": "tools/call"}
            data = {**request, "params": {"name": "add", "arguments": {"a": 4, "b": 4}}}
            answer = await ws.ask({"type": "mcp", "data": data})
            assert answer["type"] == "mcp"
            assert (answer["data"]["id"], answer["data"]["result"]["data"]) == (3, "8")
            assert (await ws.ask({"type": "mcp", "data": {}}))["data"]["error"]["code"] == -32600

    asyncio.run(main(serve()))
