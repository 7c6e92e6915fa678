"""What a transport is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent_env.env.http.replies import Reply, Sink

MAX_REPLY = 100 * 1000 * 1000
"""Most bytes of one reply, unless the caller says otherwise."""


class TransportError(Exception):
    """A request got no readable reply; whether it took effect cannot be known."""


class TransportTimeout(TransportError):
    """There was no whole reply in time."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request.

    Attributes:
        method: HTTP method.
        target: path and query.
        headers: further headers; never logged.
        body: the whole body.
        max_reply: most bytes of the reply's body.
        sink: takes the pieces of a reply that is an event stream; the request ends when it says so.
    """

    method: str
    target: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    body: bytes = b""
    max_reply: int = MAX_REPLY
    sink: Sink | None = None


class Transport(Protocol):
    """Sends requests to one server. Several may be under way; nothing is ever sent twice."""

    async def request(self, outgoing: Outgoing, *, timeout: float) -> Reply:
        """Send a request and read its reply; ``timeout`` seconds bound both, the connecting included.

        Raises:
            TransportError: there is no whole reply.
        """
        ...

    async def close(self) -> None:
        """Close all connections; requests under way fail."""
        ...


def host_of(url: str) -> tuple[str, int]:
    """Host and port of an http URL.

    Raises:
        TransportError: it has none.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise TransportError(f"bad address {url!r}: {error}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise TransportError(f"bad address {url!r}: expected http://host:port or https://host")
    return parts.hostname, port or (443 if parts.scheme == "https" else 80)
