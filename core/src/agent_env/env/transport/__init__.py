"""How the client's requests reach an env: over a unix socket or TCP by hand, over https through one shared pool."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_env.env.transport.base import (
    MAX_REPLY,
    Outgoing,
    Transport,
    TransportError,
    TransportTimeout,
    host_of,
)

if TYPE_CHECKING:
    from agent_env.plugin.sandbox import Endpoint

__all__ = [
    "MAX_REPLY",
    "Outgoing",
    "Transport",
    "TransportError",
    "TransportTimeout",
    "host_of",
    "open_transport",
]


def open_transport(endpoint: Endpoint) -> Transport:
    """A transport to an endpoint, from a running event loop; `Transport.close` ends it."""
    if endpoint.uds is None and endpoint.url.startswith("https:"):
        from agent_env.env.transport.tls import TlsTransport

        return TlsTransport(endpoint.url)
    from agent_env.env.transport.plain import PlainTransport

    return PlainTransport(endpoint.url, uds=endpoint.uds)
