"""An env of our SDK as a process, played by our client."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.env.client import EnvClient
from agent_env.errors import EnvError, EnvRequestError, EnvTimeout

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from agent_env.plugin.sandbox import Endpoint

    Spawn = Callable[..., Any]


def play(endpoint: Endpoint, game: Callable[[EnvClient], Awaitable[None]]) -> None:
    async def main() -> None:
        async with EnvClient(endpoint, name="clock") as client:
            await game(client)

    asyncio.run(main())


def test_tools_are_listed_with_their_schemas(spawn: Spawn) -> None:
    async def game(client: EnvClient) -> None:
        tools = {tool.name: tool for tool in await client.list_tools()}
        assert set(tools) == {
            "set_hour", "read", "between", "face", "clock_name", "defect", "leave", "strange", "slow", "together",
        }  # fmt: skip
        assert tools["set_hour"].description == "Set the clock."
        assert tools["set_hour"].input_schema == {
            "type": "object",
            "properties": {
                "hour": {"type": "integer", "description": "0 to 23"},
                "mode": {
                    "type": "string",
                    "enum": ["exact", "about"],
                    "description": "how exactly.",
                    "default": "exact",
                },
            },
            "required": ["hour"],
            "additionalProperties": False,
        }
        assert tools["clock_name"].input_schema["properties"] == {}
        assert tools["read"].input_schema["properties"]["unit"]["default"] == "hours"

    play(spawn("ours").endpoint, game)


def test_calls_keep_state_and_return_content(spawn: Spawn) -> None:
    async def game(client: EnvClient) -> None:
        result = await client.call_tool("set_hour", {"hour": 7.0})
        assert (result.text, result.is_error, result.structured) == ("7:00 exact", False, None)
        read = await client.call_tool("read", {"unit": "minutes"})
        assert read.structured == {"unit": "minutes", "hour": 7}
        assert read.text == '{"unit": "minutes", "hour": 7}'
        assert (await client.call_tool("between", {"window": {"start": 3}})).text == "true"
        face = await client.call_tool("face", {})
        assert face.content == [
            {"type": "text", "text": "the face"},
            {"type": "image", "data": "iVBORw==", "mimeType": "image/png"},
        ]
        assert (await client.call_tool("clock_name", {})).text == "None True"

    play(spawn("ours").endpoint, game)


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("set_hour", {"hour": 30}, "an hour is 0 to 23"),
        ("set_hour", {}, "set_hour: hour: missing; expected an integer"),
        ("set_hour", {"hour": True}, "set_hour: hour: expected an integer, got true"),
        ("set_hour", {"hour": "3"}, 'set_hour: hour: expected an integer, got the string "3"'),
        ("set_hour", {"hour": 1, "mood": "x"}, "set_hour: mood: unknown argument; did you mean 'mode'?"),
        (
            "set_hour",
            {"hour": 1, "mode": "exat"},
            'set_hour: mode: expected one of "exact" or "about", got the string "exat"; did you mean \'exact\'?',
        ),
        ("between", {"window": {"start": 9, "end": 3}}, "between: window: end is before start"),
        ("between", {"window": {"start": 9, "stop": 3}}, "between: window.stop: unknown field; known: start, end"),
        ("set_our", {}, "unknown tool 'set_our'; did you mean 'set_hour'?"),
        ("set_hour", {"hour": float("nan")}, "set_hour: the arguments are no JSON"),
        ("set_hour", {"hour": "\ud800"}, "set_hour: the arguments are no JSON: a string holds half a character"),
    ],
)
def test_the_callers_mistakes_are_results(spawn: Spawn, name: str, arguments: dict[str, Any], said: str) -> None:
    async def game(client: EnvClient) -> None:
        result = await client.call_tool(name, arguments)
        assert result.is_error
        assert said in result.text

    play(spawn("ours").endpoint, game)


def test_a_defect_of_the_env_is_no_result_and_is_in_the_log(spawn: Spawn) -> None:
    server = spawn("ours")

    async def game(client: EnvClient) -> None:
        with pytest.raises(EnvError, match=r"env 'clock': tool defect: .*KeyError: 'gone'"):
            await client.call_tool("defect", {})
        with pytest.raises(EnvError, match="leave raised SystemExit: 3"):
            await client.call_tool("leave", {})
        with pytest.raises(EnvError, match="returned what is no JSON: object has no JSON form"):
            await client.call_tool("strange", {})
        assert (await client.call_tool("read", {})).structured == {"unit": "hours", "hour": 0}

    play(server.endpoint, game)
    assert 'raise KeyError("gone")' in server.log


def test_a_sync_tool_does_not_keep_the_env_from_answering(spawn: Spawn) -> None:
    async def game(client: EnvClient) -> None:
        slow = asyncio.create_task(client.call_tool("slow", {"seconds": 20}))
        await asyncio.sleep(0.1)
        assert (await client.call_tool("clock_name", {}, timeout=10)).is_error is False
        assert not slow.done()
        with pytest.raises(EnvTimeout, match=r"env 'clock': tool slow: no whole reply within 0\.2 s"):
            await client.call_tool("slow", {"seconds": 1}, timeout=0.2)
        slow.cancel()

    play(spawn("ours").endpoint, game)


def test_a_kill_in_the_middle_of_a_call_is_an_env_failure(spawn: Spawn) -> None:
    server = spawn("ours")

    async def game(client: EnvClient) -> None:
        call = asyncio.create_task(client.call_tool("slow", {"seconds": 30}))
        await asyncio.sleep(0.2)
        server.process.kill()
        with pytest.raises(EnvError, match="env 'clock': tool slow: the connection ended without a reply"):
            await call
        await asyncio.to_thread(server.process.wait)
        with pytest.raises(EnvError, match="env 'clock': tool read: no connection to"):
            await client.call_tool("read", {})

    play(server.endpoint, game)


def test_async_tools_run_side_by_side(spawn: Spawn) -> None:
    async def game(client: EnvClient) -> None:
        results = await asyncio.gather(*(client.call_tool("together", {}) for _ in range(8)))
        assert [result.text for result in results] == ["8"] * 8

    play(spawn("ours").endpoint, game)


def test_data_operations(spawn: Spawn) -> None:
    async def game(client: EnvClient) -> None:
        parts: list[dict[str, Any]] = [{"kind": "text", "text": "ünï"}, {"kind": "data", "data": {"a": [1, None]}}]
        await client.data_add(parts)
        assert await client.data_get() == [{"kind": "text", "text": "ünï"}, {"kind": "data", "data": {"a": [1, None]}}]
        with pytest.raises(EnvRequestError, match="this text is bad") as failed:
            await client.data_add([{"kind": "text", "text": "bad"}])
        assert (failed.value.code, failed.value.applied) == ("add_failed", "unknown")
        with pytest.raises(EnvRequestError, match=r"invalid_request \(parts\[0\]: expected a part of kind") as refused:
            await client.data_add([{"kind": "texts"}])
        assert (refused.value.code, refused.value.applied) == (-32602, "no")
        await client.data_reset()
        assert await client.data_get() == []

    play(spawn("ours").endpoint, game)


def test_extensions(spawn: Spawn) -> None:
    async def game(client: EnvClient) -> None:
        load, zone = "urn:clock:load/v1", "urn:clock:zone/v1"
        assert await client.call_extension(load, {"day": "12", "strict": "yes"}) == {"day": 12, "strict": True}
        assert await client.call_extension(zone, {"detail": True, "names": "a&b=c"}) == {
            "detail": True,
            "names": "a&b=c",
        }
        assert await client.call_extension(zone, {"offset": 3}, method="set") == {}
        assert (await client.call_tool("read", {})).structured == {"unit": "hours", "hour": 3}
        with pytest.raises(EnvRequestError, match=r"no such day \(days start at 0\) \[HTTP 400, no_such_day\]") as no:
            await client.call_extension(load, {"day": -1})
        assert (no.value.code, no.value.applied, no.value.retryable) == ("no_such_day", "no", True)
        with pytest.raises(EnvRequestError, match="calendar overflow") as broken:
            await client.call_extension(load, {"day": 1001})
        assert (broken.value.code, broken.value.applied) == ("extension_failed", "unknown")
        with pytest.raises(EnvRequestError, match="dya: unknown argument; did you mean 'day'") as wrong:
            await client.call_extension(load, {"dya": 1})
        assert wrong.value.code == "invalid_params"
        with pytest.raises(EnvError, match=r"has no method 'put' \(it has: get, set\)"):
            await client.call_extension(zone, {}, method="put")
        with pytest.raises(EnvError, match="does not list extension urn:no"):
            await client.call_extension("urn:no", {})
        assert client.advertises(load)
        assert client.services() == ("clock",)
        assert not client.advertises(load, service="other")

    play(spawn("ours").endpoint, game)


def test_environment_name_overrides_the_name(spawn: Spawn) -> None:
    async def game(client: EnvClient) -> None:
        assert client.card is not None
        assert client.card.name == "wall"
        assert "wall_name" in {tool.name for tool in await client.list_tools()}

    play(spawn("ours", ENVIRONMENT_NAME="wall").endpoint, game)


def test_a_restarted_env_is_noticed(spawn: Spawn) -> None:
    first = spawn("ours")

    async def main() -> None:
        client = EnvClient(first.endpoint, name="clock")
        await client.open()
        first.process.kill()
        first.process.wait()
        with pytest.raises(EnvError, match=r"env 'clock': tool read: "):
            await client.call_tool("read", {})
        second = spawn("ours")
        assert second.endpoint.uds is not None
        assert first.endpoint.uds is not None
        os.replace(second.endpoint.uds, first.endpoint.uds)  # noqa: PTH105
        with pytest.raises(EnvError, match="its state is gone"):
            await client.call_tool("read", {})
        await client.close()

    asyncio.run(main())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly(spawn: Spawn, number: signal.Signals) -> None:
    server = spawn("ours")
    uds = Path(server.endpoint.uds or "")
    assert stat.S_IMODE(uds.stat().st_mode) == 0o600

    async def game(client: EnvClient) -> None:
        call = asyncio.create_task(client.call_tool("slow", {"seconds": 0.5}))
        await asyncio.sleep(0.05)
        await client.call_tool("clock_name", {})  # when this one is answered, the one before it is under way
        os.kill(server.process.pid, number)
        assert (await call).text == "slept"  # what runs may end

    play(server.endpoint, game)
    assert server.process.wait(10) == 0
    assert not uds.exists()
    assert server.log == ""


def test_over_tcp(spawn: Spawn) -> None:
    async def game(client: EnvClient) -> None:
        assert (await client.call_tool("set_hour", {"hour": 1})).text == "1:00 exact"
        assert client.mcp_url == f"{server.endpoint.url}/mcp"

    server = spawn("ours", tcp=True)
    play(server.endpoint, game)
