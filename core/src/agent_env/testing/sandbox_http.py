"""Talking to an endpoint in sandbox checks: HTTP with httpx and WebSocket with websockets, headers included."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    import httpx
    from agent_env.plugin.sandbox import Endpoint

_TIMEOUT = 30.0


async def get(endpoint: Endpoint, path: str) -> bytes:
    """Body of a GET.

    Raises:
        OSError: there was no answer, or it is no success.
    """
    async with _client(endpoint) as client:
        return await _body(client, "GET", path, None)


async def post(endpoint: Endpoint, path: str, body: bytes) -> bytes:
    """Body of the answer to a POST."""
    async with _client(endpoint) as client:
        return await _body(client, "POST", path, body)


@asynccontextmanager
async def _client(endpoint: Endpoint) -> AsyncGenerator[httpx.AsyncClient, None]:
    import httpx

    transport = httpx.AsyncHTTPTransport(uds=endpoint.uds) if endpoint.uds is not None else None
    headers = dict(endpoint.headers)
    async with httpx.AsyncClient(
        transport=transport, base_url=endpoint.url, headers=headers, timeout=_TIMEOUT, trust_env=False
    ) as client:
        yield client


async def _body(client: httpx.AsyncClient, method: str, path: str, body: bytes | None) -> bytes:
    import httpx

    try:
        answer = await client.request(method, path, content=body)
        answer.raise_for_status()
    except httpx.HTTPError as error:
        raise OSError(f"{method} {path}: {type(error).__name__}: {error}") from error
    return answer.content


async def echo_websocket(endpoint: Endpoint, messages: Sequence[str]) -> list[str]:
    """What comes back for each message."""
    from websockets.asyncio.client import connect, unix_connect

    url = endpoint.url.replace("http", "ws", 1) + "/ws"
    headers = dict(endpoint.headers)
    answers: list[str] = []
    async with asyncio.timeout(_TIMEOUT):
        opened = (
            unix_connect(endpoint.uds, url, additional_headers=headers, proxy=None)
            if endpoint.uds is not None
            else connect(url, additional_headers=headers, proxy=None)
        )
        async with opened as socket:
            for message in messages:
                await socket.send(message)
                answers.append(str(await socket.recv()))
    return answers
