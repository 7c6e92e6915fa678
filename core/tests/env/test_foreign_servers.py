"""Our client with env servers that others wrote."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.env.client import EnvClient
from agent_env.env.relay_bytes import ByteRelay
from agent_env.env.sockets import listen_uds
from agent_env.errors import EnvRequestError, EnvTimeout, EnvUnsupported
from agent_env.plugin.sandbox import Endpoint

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    Spawn = Callable[..., Any]

pytestmark = pytest.mark.interop


def play(server: Any, game: Callable[[EnvClient], Awaitable[None]]) -> None:
    async def main() -> None:
        async with EnvClient(server.endpoint, name="other") as client:
            await game(client)

    asyncio.run(main())


@pytest.fixture(params=["", "json", "stateless", "json stateless"])
def plain(spawn: Spawn, request: pytest.FixtureRequest) -> Any:
    pytest.importorskip("mcp")
    return spawn("plain", tcp=True, MCP_MODE=request.param)


@pytest.fixture
def foreign(spawn: Spawn) -> Any:
    pytest.importorskip("agentenv_protocol")
    pytest.importorskip("mcp")
    return spawn("foreign", tcp=True)


def test_plain_mcp_server(plain: Any) -> None:
    async def game(client: EnvClient) -> None:
        assert client.card is None
        assert {tool.name for tool in await client.list_tools()} == {"add", "picture", "fail", "chatty", "nap"}
        added = await client.call_tool("add", {"a": 2, "b": 3})
        assert (added.text, added.structured, added.is_error) == ("5", {"result": 5}, False)
        wrong = await client.call_tool("add", {"a": "x"})
        assert wrong.is_error
        assert "Field required" in wrong.text
        failed = await client.call_tool("fail", {})
        assert failed.is_error
        assert "no luck" in failed.text
        assert [part["type"] for part in (await client.call_tool("picture", {})).content] == ["text", "image"]
        naps = await asyncio.gather(*(client.call_tool("nap", {"seconds": 0.1}) for _ in range(10)))
        assert [nap.text for nap in naps] == ["slept"] * 10
        with pytest.raises(EnvTimeout, match="env 'other': tool nap"):
            await client.call_tool("nap", {"seconds": 30}, timeout=0.2)
        assert (await client.call_tool("add", {"a": 1, "b": 1})).text == "2"
        for refused in (client.data_reset(), client.data_get(), client.call_extension("urn:x", {})):
            with pytest.raises(EnvUnsupported, match=r"env 'other': .* plain MCP server"):
                await refused
        assert client.services() == ()

    play(plain, game)


def test_plain_mcp_server_behind_a_unix_socket(spawn: Spawn, tmp_path: Path) -> None:
    """As a sandbox with a network of its own relays it; such servers refuse hosts that they do not know."""
    pytest.importorskip("mcp")
    port = int(spawn("plain", tcp=True).endpoint.url.rpartition(":")[2])

    async def main() -> None:
        relay = ByteRelay(("127.0.0.1", port))
        await relay.listen(listen_uds(tmp_path / "relayed"))
        endpoint = Endpoint("http://localhost", uds=str(tmp_path / "relayed"))
        async with EnvClient(endpoint, name="other") as client:
            assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"
        await relay.close()

    asyncio.run(main())


def test_what_a_server_asks_during_a_call_is_refused_at_once(spawn: Spawn) -> None:
    pytest.importorskip("mcp")

    async def game(client: EnvClient) -> None:
        result = await client.call_tool("chatty", {}, timeout=20)
        assert result.text.startswith("refused: this client does not serve elicitation/create")

    play(spawn("plain", tcp=True), game)


def test_env_of_the_public_protocol(foreign: Any) -> None:
    async def game(client: EnvClient) -> None:
        assert {tool.name for tool in await client.list_tools()} == {"add", "refuse", "secret"}
        assert (await client.call_tool("add", {"a": 2, "b": 3})).text == "5"
        refused = await client.call_tool("refuse", {})
        assert (refused.is_error, refused.text) == (True, "not_now: come back later")
        assert refused.structured["code"] == "not_now"
        await client.data_add([{"kind": "data", "data": {"a": 1}}])
        (part,) = await client.data_get()
        assert (part["kind"], part["data"]) == ("data", {"a": 1})
        await client.data_reset()
        assert await client.data_get() == []
        with pytest.raises(EnvRequestError) as invalid:
            await client.data_add([])
        assert invalid.value.code == -32602
        assert await client.call_extension("urn:foreign:game/v1", {"level": 3}) == {"level": 3}
        assert await client.call_extension("urn:foreign:info/v1", {"part": "a b"}) == {"part": "a b"}
        with pytest.raises(EnvRequestError, match="levels end at 9") as hard:
            await client.call_extension("urn:foreign:game/v1", {"level": 10})
        assert (hard.value.code, hard.value.applied, hard.value.retryable) == ("too_hard", "no", True)

    play(foreign, game)


def test_tool_access_of_the_public_protocol(foreign: Any) -> None:
    async def game(client: EnvClient) -> None:
        answer = await client.call_extension(
            "urn:agentenv:disable-tool/v1", {"role": "*", "tools": ["secret"]}, method="disable"
        )
        assert answer == {"role": "*", "disabled": ["secret"], "allowed": []}
        assert {tool.name for tool in await client.list_tools()} == {"add", "refuse"}
        assert (await client.call_tool("secret", {})).is_error

    play(foreign, game)
