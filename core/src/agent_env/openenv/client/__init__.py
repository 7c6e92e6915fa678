"""The client of a bundle's server: `Session` plays episodes, `BundleClient` reads what the server has to offer.

Importing this module loads neither httpx nor websockets nor anything of the server.
"""

from __future__ import annotations

from agent_env.openenv.client.bundle import BundleClient
from agent_env.openenv.client.replies import ToolReply, TurnReply
from agent_env.openenv.client.session import Session

__all__ = ["BundleClient", "Session", "ToolReply", "TurnReply"]
