"""Requests to ports of a sandbox, passed on as the service's proxy does."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import httpx
import websockets
from starlette.responses import JSONResponse, Response, StreamingResponse
from websockets.asyncio.client import unix_connect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from agent_env.sandboxes.e2b.testing.state import Box
    from starlette.requests import Request
    from starlette.websockets import WebSocket

TOKEN = "e2b-traffic-access-token"  # noqa: S105
_OWN = {"host", "e2b-sandbox-id", "e2b-sandbox-port", TOKEN, "connection", "transfer-encoding", "content-length"}
_NOT_OPEN = {"code": 502, "message": "The sandbox is running but port is not open"}


def allowed(box: Box, token: str | None) -> bool:
    """Whether somebody with this token may reach the sandbox's ports."""
    return not box.private or token == box.traffic_token


async def http(request: Request, box: Box, port: int) -> Response:
    """Pass a request on."""
    if not allowed(box, request.headers.get(TOKEN)):
        return JSONResponse({"code": 403, "message": "missing or wrong traffic access token"}, 403)
    client = httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(uds=await box.machine.port(port)), timeout=None)  # noqa: S113
    path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    headers = [(name, value) for name, value in request.headers.items() if name not in _OWN]
    asked = client.build_request(
        request.method, f"http://localhost{path}", headers=headers, content=await request.body()
    )
    try:
        answer = await client.send(asked, stream=True)
    except httpx.HTTPError:
        await client.aclose()
        return JSONResponse(_NOT_OPEN, 502)

    async def pieces() -> AsyncIterator[bytes]:
        try:
            async for piece in answer.aiter_raw():
                yield piece
        finally:
            await answer.aclose()
            await client.aclose()

    kept = {name: value for name, value in answer.headers.items() if name not in {"connection", "transfer-encoding"}}
    return StreamingResponse(pieces(), answer.status_code, kept)


async def websocket(socket: WebSocket, box: Box, port: int) -> None:
    """Pass a WebSocket on."""
    if not allowed(box, socket.headers.get(TOKEN)):
        await socket.close(4403)
        return
    try:
        there = await unix_connect(await box.machine.port(port), f"ws://localhost{socket.url.path}")
    except (OSError, websockets.WebSocketException):
        await socket.close(1011)
        return
    await socket.accept()

    async def out() -> None:
        while True:
            message: dict[str, Any] = dict(await socket.receive())
            if message["type"] == "websocket.disconnect":
                return
            await there.send(message["text"] if message.get("text") is not None else message["bytes"])

    async def back() -> None:
        async for data in there:
            await (socket.send_text(data) if isinstance(data, str) else socket.send_bytes(data))
        await socket.close()

    ways = [asyncio.create_task(out()), asyncio.create_task(back())]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.wait(ways)
        for way in ways:
            with contextlib.suppress(asyncio.CancelledError, Exception):
                way.result()
        await there.close()
