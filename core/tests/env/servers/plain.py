"""A plain MCP server; ``MCP_MODE`` holds ``json`` and ``stateless`` when it should be so."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from mcp.server.fastmcp import Context, FastMCP, Image
from pydantic import BaseModel

mode = os.environ.get("MCP_MODE", "")
server = FastMCP(
    "plain",
    host="127.0.0.1",
    port=int(os.environ["MCP_PORT"]),
    json_response="json" in mode,
    stateless_http="stateless" in mode,
    log_level="ERROR",
)


class Answer(BaseModel):
    """What the client is asked for."""

    yes: bool


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool(structured_output=False)
def picture() -> list[Any]:
    """Text and an image."""
    return ["look", Image(data=b"\x89PNG", format="png")]


@server.tool()
def fail() -> str:
    """Always fails."""
    raise ValueError("no luck")


@server.tool()
async def chatty(ctx: Context[Any, Any, Any]) -> str:
    """Sends notifications and asks the client for something before it answers."""
    await ctx.report_progress(1, 2)
    await ctx.info("half way")
    try:
        await ctx.elicit("go on?", Answer)
    except Exception as error:  # noqa: BLE001 - whatever the client's refusal becomes
        return f"refused: {error}"
    return "answered"


@server.tool()
async def nap(seconds: float) -> str:
    """Sleeps."""
    await asyncio.sleep(seconds)
    return "slept"


if __name__ == "__main__":
    server.run(transport="streamable-http")
