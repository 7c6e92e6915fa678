"""An MCP server with one tool. It would serve any MCP client just as well."""

from __future__ import annotations

import os

from mcp.server.fastmcp import FastMCP
from mcp.server.transport_security import TransportSecuritySettings

server = FastMCP(
    "echo",
    host=os.environ.get("MCP_HOST", "0.0.0.0"),
    port=int(os.environ.get("MCP_PORT", "18765")),
    # It is reached by whatever name its sandbox has, so the check of the Host header has to be off.
    transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
)


@server.tool()
def echo(text: str) -> str:
    """Answers the text that it is sent."""
    return text


if __name__ == "__main__":
    server.run(transport="streamable-http")
