"""HTTP clients for chat endpoints.

A client per rollout, not one for all: the pool of a shared one goes through every connection for every request, which
at hundreds of rollouts costs more than the requests. What is dear about a client, its TLS settings, is made once.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl

    import httpx

CONNECT_TIMEOUT = 10.0


def new_client(url: str) -> httpx.AsyncClient:
    """A client for ``url``; close it.

    It has no deadline of its own beyond connecting and ignores proxy variables: the endpoint is the trainer's own.
    """
    import httpx

    return httpx.AsyncClient(
        verify=_empty_context() if url.startswith("http://") else _tls_context(),
        trust_env=False,
        timeout=httpx.Timeout(None, connect=CONNECT_TIMEOUT),
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
