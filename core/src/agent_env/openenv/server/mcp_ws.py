"""The WebSocket ``/mcp``: JSON-RPC frames on a session of its own.

Stock servers have no reset here; ``?split=&index=`` names the task whose episode begins with the first call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from agent_env.openenv.server.connection import Connection
from agent_env.openenv.server.frames import BadMessage, Refused
from agent_env.openenv.server.rpc import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PARSE_ERROR,
    SERVER_ERROR,
    answer_rpc,
    error_body,
    reset_of_query,
)
from agent_env.openenv.wire import read_json, write_json

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable

    from agent_env.openenv.server.connection import Receive, Scope, Send
    from agent_env.openenv.server.hub import Hub
    from agent_env.openenv.server.play import Play

_CODES = {
    "INVALID_JSON": PARSE_ERROR,
    "VALIDATION_ERROR": INVALID_REQUEST,
    "CAPACITY_REACHED": SERVER_ERROR,
    "SESSION_ERROR": SERVER_ERROR,
}


class McpRoute:
    """The ASGI application behind the WebSocket ``/mcp``."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await McpConnection(self._hub, scope, receive, send).run()


class McpConnection(Connection):
    """A client on the WebSocket ``/mcp``."""

    __slots__ = ()

    def open(self) -> Play:
        query = parse_qs(self._scope.get("query_string", b"").decode("latin-1"))
        try:
            first = reset_of_query(query)
        except BadMessage as error:
            raise Refused(f"the query names no task: {error.words}", "SESSION_ERROR") from None
        return self.hub.open(first=first)

    def leave(self, play: Play, worker: asyncio.Task[None] | None) -> Awaitable[None]:
        return self.hub.finish(play, "the connection ended", worker)

    def read(self, text: str) -> Any:
        try:
            return {"body": read_json(text)}
        except ValueError as error:
            raise Refused(f"Parse error: {error}", "INVALID_JSON") from None

    def refuse(self, refused: Refused) -> str:
        code = _CODES.get(refused.code, INTERNAL_ERROR)
        return write_json(error_body(code, str(refused), data=refused.extra or None))

    async def answer(self, request: Any, ticket: int) -> str:
        return write_json(await answer_rpc(self.hub, request["body"], self._play, ticket))
