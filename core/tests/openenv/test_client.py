"""The client, against real servers, broken ones and none."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.errors import CapacityReached, ServerAuthError, ServerError, SessionLost, UsageError
from agent_env.openenv import build_app
from agent_env.openenv.client import BundleClient, Session
from agent_env.openenv.client import session as session_module
from agent_env.openenv.client.urls import parse_url
from agent_env.openenv.run import running_server
from websockets.asyncio.server import ServerConnection
from websockets.asyncio.server import serve as serve_websockets

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

TOKEN = "s3cret-token"


@contextlib.asynccontextmanager
async def fake_server(answer: Callable[[ServerConnection], Awaitable[None]]) -> AsyncGenerator[str, None]:
    async with serve_websockets(answer, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        yield f"http://127.0.0.1:{port}"


def test_episodes_one_after_the_other(serve: Any, world: Any) -> None:
    async def main(url: str) -> None:
        async with Session(url) as session:
            turn = await session.reset(split="single", index=1, episode_id="e1")
            assert (turn.done, turn.prompt, turn.system_prompt) == (False, "First.", None)
            assert turn.task["name"] == "two"
            tools = await session.list_tools()
            assert [tool.name for tool in tools][-1] == "end_turn"
            reply = await session.call_tool("structured", {})
            assert reply.result is not None
            assert (reply.result.text, reply.result.structured) == ("½ ok", {"value": 1})
            reply = await session.call_tool("refuse", {})
            assert reply.result is not None
            assert reply.result.is_error
            assert (await session.call_tool("nothing", {})).error_type == "tool_not_found"
            for arguments in ({"x": float("nan")}, {"x": object()}, {"x": {1, 2}}):
                reply = await session.call_tool("add", arguments)
                assert (reply.error_type, reply.result) == ("invalid_args", None)
            turn = await session.end_turn("one")
            assert (turn.done, turn.prompt) == (False, "Second.")
            turn = await session.end_turn("done", invalid_calls=2, truncated=True)
            assert (turn.done, turn.reward, turn.scores, turn.failure) == (True, 1.0, {"grade": 1.0}, None)
            assert turn.timings.keys() == {"deploy_s", "tools_s", "verifier_s"}
            assert (await session.call_tool("add", {})).error_type == "execution_error"
            with pytest.raises(ServerError, match="over"):
                await session.end_turn("again")
            turn = await session.reset(split="single", index=2, seed=3)
            assert turn.prompt == "Day Monday, seed 3."
            with pytest.raises(ServerError, match="nowhere"):
                await session.reset(split="nowhere", index=0)
            with pytest.raises(ServerError, match="no episode"):
                await session.list_tools()

    asyncio.run(main(serve()))
    assert world.deploys == 2


def test_failures_are_told_from_mistakes(serve: Any) -> None:
    async def main(url: str) -> None:
        async with Session(url) as session:
            await session.reset(split="single", index=0)
            reply = await session.call_tool("slow", {"seconds": 60}, timeout=0.05)
            assert reply.failure is not None
            assert (reply.failure.kind, reply.failure.retryable) == ("tool_timeout", True)
            await session.reset(split="single", index=0)
            reply = await session.call_tool("die", {})
            assert reply.failure is not None
            assert reply.failure.kind == "env"
            assert (reply.result, reply.error_type) == (None, None)

    asyncio.run(main(serve()))


def test_a_failed_deploy_is_a_reply(serve: Any, world: Any) -> None:
    world.deploy_seconds = 60.0

    async def main(url: str) -> None:
        async with Session(url) as session:
            turn = await session.reset(split="single", index=0, timeout=0.1)
            assert turn.done
            assert turn.failure is not None
            assert turn.failure.kind == "deploy"
            assert turn.reward is None

    asyncio.run(main(serve()))


def test_a_call_past_its_deadline_closes_the_session(
    serve: Any, world: Any, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "_GRACE_S", -0.5)

    async def main(url: str) -> None:
        async with Session(url) as session:
            await session.reset(split="single", index=0)
            with pytest.raises(TimeoutError, match="slow"):
                await session.call_tool("slow", {"seconds": 0.6, "name": "late"}, timeout=0.6)
            for _ in range(2):  # the late reply is never taken for another
                with pytest.raises(SessionLost, match="no reply"):
                    await session.call_tool("add", {"a": 1, "b": 1}, timeout=5)
        await until(lambda: world.left() == 0)

    asyncio.run(main(serve()))


def test_a_cancelled_call_closes_the_session(serve: Any, world: Any, until: Any) -> None:
    async def main(url: str) -> None:
        async with Session(url) as session:
            await session.reset(split="single", index=0)
            call = asyncio.create_task(session.call_tool("slow", {"seconds": 60, "name": "x"}))
            await until(lambda: world.began == ["x"])
            with pytest.raises(UsageError, match="one call at a time"):
                await session.call_tool("add", {})
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            with pytest.raises(SessionLost):
                await session.list_tools()
            await until(lambda: world.left() == 0 and world.cancelled == 1)

    asyncio.run(main(serve()))


def test_a_close_ends_a_running_call(serve: Any, world: Any, until: Any) -> None:
    async def main(url: str) -> None:
        session = Session(url)
        await session.open()
        await session.reset(split="single", index=0)
        call = asyncio.create_task(session.call_tool("slow", {"seconds": 60, "name": "x"}))
        await until(lambda: world.began == ["x"])
        await session.close()
        with pytest.raises(SessionLost):
            await call
        await session.close()
        with pytest.raises(UsageError):
            await session.open()

    asyncio.run(main(serve()))


def test_a_full_server(serve: Any) -> None:
    async def main(url: str) -> None:
        async with Session(url) as holder:
            await holder.reset(split="single", index=0)
            async with Session(url) as session:
                with pytest.raises(CapacityReached) as full:
                    await session.reset(split="single", index=0)
                assert full.value.retryable
            async with Session(url, wait=0.05) as session:
                with pytest.raises(CapacityReached):
                    await session.reset(split="single", index=0)
            async with Session(url, wait=20) as session:
                waiting = asyncio.create_task(session.reset(split="single", index=0))
                await asyncio.sleep(0.05)
                assert not waiting.done()
                await holder.close()
                assert (await waiting).prompt == "Add 2 and 3."

    asyncio.run(main(serve(max_concurrent_envs=1)))


def test_the_token(serve: Any, caplog: Any) -> None:
    caplog.set_level("DEBUG")

    async def main(url: str) -> None:
        async with Session(url, token=TOKEN) as session:
            assert (await session.reset(split="single", index=0)).prompt
            assert TOKEN not in repr(session)
        async with BundleClient(url, token=TOKEN) as client:
            assert (await client.metadata())["name"] == "calc-bundle"
            assert TOKEN not in repr(client)
        for wrong in (None, "other-s3cret"):
            with pytest.raises(ServerAuthError) as refused:
                await Session(url, token=wrong).open()
            assert "other-s3cret" not in str(refused.value)
            assert not refused.value.retryable
            async with BundleClient(url, token=wrong) as client:
                await client.health()
                with pytest.raises(ServerAuthError):
                    await client.splits()
        with pytest.raises(UsageError) as bad:
            Session(url, token="s3cret\n")
        assert "s3cret" not in str(bad.value)

    asyncio.run(main(serve(token=TOKEN)))
    assert not [
        record for record in caplog.records if record.name.startswith("agent_env") and "s3cret" in record.getMessage()
    ]


def test_the_http_half(serve: Any) -> None:
    async def main(url: str) -> None:
        async with BundleClient(url + "/") as client:
            await client.health()
            assert await client.splits() == [("all", "train"), ("eval", "validation"), ("single", "validation")]
            assert await client.num_tasks("all") == 6
            names = [task["name"] async for task in client.tasks("eval")]
            assert names == ["plain/0", "plain/1", "plain/2"]
            assert [task["index"] async for task in client.tasks("eval", 1, 2)] == [1]
            with pytest.raises(ServerError, match="nowhere"):
                await client.num_tasks("nowhere")
        with pytest.raises(UsageError):
            await client.health()

    asyncio.run(main(serve()))


def test_nobody_there() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"

        async def main() -> None:
            with pytest.raises(ServerError, match="cannot reach") as error:
                await Session(url).open()
            assert error.value.retryable
            async with BundleClient(url) as client:
                with pytest.raises(ServerError, match="cannot reach") as error:
                    await client.health()
            assert error.value.retryable

        asyncio.run(main())


def test_a_server_that_never_answers_the_handshake() -> None:
    async def main() -> None:
        held: list[asyncio.StreamWriter] = []
        server = await asyncio.start_server(lambda _, writer: held.append(writer), "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(ServerError, match=r"within 0\.1 s") as error:
                await Session(f"127.0.0.1:{port}", connect_timeout=0.1).open()
            assert error.value.retryable
            for writer in held:
                writer.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    "frame", ["{}", "[]", "nonsense", b"x", '{"type": "state", "data": {}}', '{"type": "observation"}']
)
def test_a_server_that_speaks_something_else(frame: str | bytes) -> None:
    async def answer(ws: ServerConnection) -> None:
        async for _ in ws:
            await ws.send(frame)

    async def main() -> None:
        async with fake_server(answer) as url, Session(url) as session:
            with pytest.raises(ServerError):
                await session.list_tools()

    asyncio.run(main())


def test_a_lost_connection_is_said() -> None:
    async def answer(ws: ServerConnection) -> None:
        await ws.recv()
        await ws.close(1012)

    async def broken(ws: ServerConnection) -> None:
        await ws.recv()
        ws.transport.abort()

    async def main() -> None:
        for play, words in ((answer, "stopped or restarts"), (broken, "broke")):
            async with fake_server(play) as url, Session(url) as session:
                with pytest.raises(SessionLost, match=words) as lost:
                    await session.reset(split="all", index=0)
                assert lost.value.retryable
                with pytest.raises(SessionLost):
                    await session.reset(split="all", index=0)

    asyncio.run(main())


def test_a_reward_that_is_no_number_is_a_failure() -> None:
    rewards = ["null", "true", '"1"']

    async def answer(ws: ServerConnection) -> None:
        async for _ in ws:
            data = f'{{"observation": {{}}, "reward": {rewards.pop()}, "done": true}}'
            await ws.send(f'{{"type": "observation", "data": {data}}}')

    async def main() -> None:
        async with fake_server(answer) as url, Session(url) as session:
            while rewards:
                turn = await session.end_turn("x")
                assert turn.failure is not None
                assert (turn.reward, turn.failure.kind) == (None, "no_reward")

    asyncio.run(main())


def test_one_session_after_another_in_different_loops(serve: Any) -> None:
    url = serve()

    async def main() -> str | None:
        async with Session(url) as session, BundleClient(url) as client:
            await client.health()
            return (await session.reset(split="single", index=0)).prompt

    assert {asyncio.run(main()) for _ in range(3)} == {"Add 2 and 3."}


def test_the_server_goes_while_a_call_runs(world: Any, until: Any) -> None:
    async def main() -> None:
        async with contextlib.AsyncExitStack() as stack:
            server = running_server(build_app("", engine=world.engine))
            url = await server.__aenter__()
            session = await stack.enter_async_context(Session(url))
            await session.reset(split="single", index=0)
            call = asyncio.create_task(session.call_tool("slow", {"seconds": 60, "name": "x"}))
            await until(lambda: world.began == ["x"])
            await server.__aexit__(None, None, None)
            with pytest.raises(SessionLost, match="stopped or restarts"):
                await call
        assert world.left() == 0

    asyncio.run(main())


@pytest.mark.parametrize(
    ("url", "http", "ws"),
    [
        ("http://host:8000", "http://host:8000", "ws://host:8000/ws"),
        ("https://host/a/b/", "https://host/a/b", "wss://host/a/b/ws"),
        ("ws://host:1", "http://host:1", "ws://host:1/ws"),
        ("wss://host", "https://host", "wss://host/ws"),
        ("host:80", "http://host:80", "ws://host:80/ws"),
        ("http://[::1]:9/x?y=1#z", "http://[::1]:9/x", "ws://[::1]:9/x/ws"),
        ("http://u:p@host:1", "http://u:p@host:1", "ws://u:p@host:1/ws"),
    ],
)
def test_addresses(url: str, http: str, ws: str) -> None:
    address = parse_url(url)
    assert (address.http, address.ws("/ws")) == (http, ws)
    assert "p@" not in str(address)


@pytest.mark.parametrize("url", ["", "ftp://host", "http://", "http://host:port", "http://u:secret@host:port"])
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(UsageError) as error:
        Session(url)
    assert "secret" not in str(error.value)


def test_loopback_is_never_proxied(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)

    async def main(url: str) -> None:
        async with Session(url) as session, BundleClient(url) as client:
            await client.health()
            assert (await session.reset(split="single", index=0)).prompt

    asyncio.run(main(serve()))


def test_importing_the_client_loads_nothing_heavy() -> None:
    code = "import sys, json, agent_env.openenv, agent_env.openenv.client; print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout)
    heavy = {"fastapi", "starlette", "uvicorn", "pydantic", "httpx", "websockets", "agent_env.openenv.app"}
    assert not heavy & set(loaded)


def test_the_time_of_a_call_that_hung_is_counted(serve: Any) -> None:
    async def main(url: str) -> None:
        async with Session(url) as session:
            await session.reset(split="all", index=0)
            reply = await session.call_tool("slow", {"seconds": 60}, timeout=0.1)
            assert reply.failure is not None
            assert reply.failure.kind == "tool_timeout"
            assert reply.timings["tools_s"] >= 0.1

    asyncio.run(main(serve()))
