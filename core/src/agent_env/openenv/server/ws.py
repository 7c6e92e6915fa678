"""The WebSocket ``/ws``: reset, step, state, close and JSON-RPC, on one session."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from agent_env.openenv.server import replies
from agent_env.openenv.server.connection import Connection
from agent_env.openenv.server.frames import Refused, state_frame
from agent_env.openenv.server.messages import CallTool, CloseSession, GetState, Request, Rpc, read_frame
from agent_env.openenv.server.rpc import answer_rpc
from agent_env.openenv.wire import END_TURN, write_json

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable

    from agent_env.openenv.server.connection import Receive, Scope, Send
    from agent_env.openenv.server.hub import Hub
    from agent_env.openenv.server.play import Play


class WsRoute:
    """The ASGI application behind ``/ws``."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await WsConnection(self._hub, scope, receive, send).run()


class WsConnection(Connection):
    """A client on ``/ws``: with ``?session_id=`` attached to a session created over HTTP, else on its own."""

    __slots__ = ()

    def open(self) -> Play:
        query_string = self._scope.get("query_string", b"")
        if not query_string:
            return self.hub.open()
        query = parse_qs(query_string.decode("latin-1"), keep_blank_values=True)
        session_id = query.get("session_id", [""])[-1]
        if session_id:
            return self.hub.attach(session_id)
        return self.hub.open(wait=_seconds(query["wait"][-1]) if "wait" in query else None)

    def leave(self, play: Play, worker: asyncio.Task[None] | None) -> Awaitable[None]:
        if play.attached:
            return self.hub.detach(play, worker)
        return self.hub.finish(play, "the connection ended", worker)

    def read(self, text: str) -> Request | None:
        request = read_frame(text)
        return None if isinstance(request, CloseSession) else request

    async def answer(self, request: Any, ticket: int) -> str:
        play = self._play
        if play is None:
            raise Refused("the session is not open")
        if isinstance(request, GetState):
            return state_frame(play.state())
        if isinstance(request, Rpc):
            return write_json({"type": "mcp", "data": await answer_rpc(self.hub, request.data, play, ticket)})
        return (await play.play(request, ticket)).frame()

    def unsendable(self, request: Any, why: str) -> str:
        if isinstance(request, CallTool) and request.name != END_TURN:  # the model may ask for less
            return replies.tool_error(request.name, "execution_error", why).frame()
        return super().unsendable(request, why)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not (math.isfinite(seconds) and seconds >= 0):
        raise Refused(f"wait must be a number of seconds, not {text[:50]!r}", "SESSION_ERROR")
    return seconds
