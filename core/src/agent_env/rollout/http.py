"""HTTP clients shared by all rollouts of an event loop; TLS settings are read once per process."""

from __future__ import annotations

import asyncio
import functools
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncGenerator

    import httpx

CONNECT_TIMEOUT = 10.0


class _Shared:
    """A client and how many use it."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client
        self.users = 0


_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[bool, _Shared]] = WeakKeyDictionary()


@asynccontextmanager
async def shared_client(url: str) -> AsyncGenerator[httpx.AsyncClient]:
    """The running loop's client for ``url``; the last one to leave closes its connections.

    It has no deadline of its own beyond connecting, no limit of connections, and ignores proxy variables: the
    endpoint is the trainer's own server.
    """
    tls = not url.startswith("http://")
    clients = _clients.setdefault(asyncio.get_running_loop(), {})
    shared = clients.get(tls)
    if shared is None:
        shared = clients[tls] = _Shared(_new_client(tls=tls))
    shared.users += 1
    try:
        yield shared.client
    finally:
        shared.users -= 1
        if not shared.users:
            if clients.get(tls) is shared:
                del clients[tls]
            await shared.client.aclose()


def _new_client(*, tls: bool) -> httpx.AsyncClient:
    import httpx

    return httpx.AsyncClient(
        verify=_tls_context() if tls else _empty_context(),
        trust_env=False,
        timeout=httpx.Timeout(None, connect=CONNECT_TIMEOUT),
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=None),
    )


@functools.cache
def _tls_context() -> ssl.SSLContext:
    import httpx

    return httpx.create_ssl_context()


@functools.cache
def _empty_context() -> ssl.SSLContext:
    """For plain http: it trusts nobody and costs nothing to build."""
    import ssl

    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
