"""The official MCP client with an env of our SDK."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.env.relay import Relay

if TYPE_CHECKING:
    from collections.abc import Callable

    Spawn = Callable[..., Any]

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("tcp", [True, False])
def test_official_client(spawn: Spawn, tcp: bool) -> None:
    mcp = pytest.importorskip("mcp")
    http = pytest.importorskip("mcp.client.streamable_http")
    server = spawn("ours", tcp=tcp)

    async def main() -> None:
        async with (
            Relay(server.endpoint) as relay,
            http.streamable_http_client(f"{relay.url}/mcp") as (read, write, session_id),
            mcp.ClientSession(read, write) as session,
        ):
            started = await session.initialize()
            assert started.serverInfo.name == "clock"
            assert session_id()
            await session.send_ping()
            tools = await session.list_tools()
            hour = next(tool for tool in tools.tools if tool.name == "set_hour")
            assert hour.inputSchema["required"] == ["hour"]
            assert next(tool for tool in tools.tools if tool.name == "clock_name").annotations.readOnlyHint is True
            result = await session.call_tool("set_hour", {"hour": 5})
            assert (result.isError, result.content[0].text) == (False, "5:00 exact")
            assert (await session.call_tool("read", {})).structuredContent == {"unit": "hours", "hour": 5}
            assert (await session.call_tool("face", {})).content[1].mimeType == "image/png"
            assert (await session.call_tool("set_hour", {"hour": 50})).isError
            with pytest.raises(mcp.McpError, match="KeyError"):
                await session.call_tool("defect", {})
            together = await asyncio.gather(*(session.call_tool("together", {}) for _ in range(4)))
            assert [one.content[0].text for one in together] == ["4"] * 4

    asyncio.run(main())
