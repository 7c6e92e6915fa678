"""Requests to one env, with its name in every error."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from agent_env.env.transport import MAX_REPLY, Outgoing, TransportError, TransportTimeout, open_transport
from agent_env.errors import EnvError, EnvTimeout

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent_env.env.http.replies import Reply, Sink
    from agent_env.env.transport import Transport
    from agent_env.plugin.sandbox import Endpoint

_MOST_REDIRECTS = 5


class Link:
    """The way to one env.

    Args:
        endpoint: where it is; its secret headers go with every request.
        name: the env's name for messages.
        max_reply: most bytes of one reply.
    """

    def __init__(self, endpoint: Endpoint, name: str, max_reply: int = MAX_REPLY) -> None:
        self.name = name
        self.endpoint = endpoint
        self._max_reply = max_reply
        self._prefix = urlsplit(endpoint.url).path.rstrip("/")
        self._transport: Transport | None = None
        self._moved: dict[tuple[str, str], str] = {}

    def open(self) -> None:
        """Get ready to send; nothing is sent yet.

        Raises:
            EnvError: the address is malformed.
        """
        if self._transport is not None:
            raise self.error("the client is open already")
        try:
            self._transport = open_transport(self.endpoint)
        except TransportError as error:
            raise self.error(str(error)) from error

    async def close(self) -> None:
        """Close the connections."""
        transport, self._transport = self._transport, None
        if transport is not None:
            await transport.close()

    def error(self, message: str) -> EnvError:
        """An error that names the env."""
        return EnvError(f"env {self.name!r}: {message}")

    async def send(
        self,
        method: str,
        target: str,
        *,
        what: str,
        timeout: float,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        sink: Sink | None = None,
    ) -> Reply:
        """Send a request to a path of the env; redirects within the env are followed.

        Args:
            method: HTTP method.
            target: path and query, relative to the env's base URL.
            what: the request in words, for messages.
            timeout: seconds for all of it.
            headers: further headers.
            body: the body.
            sink: takes an event stream's pieces.

        Raises:
            EnvTimeout: no whole reply in time.
            EnvError: no readable reply.
        """
        if self._transport is None:
            raise self.error(f"{what}: the client is not open")
        path = self._moved.get((method, target)) or self._prefix + target
        merged = {**(headers or {}), **self.endpoint.headers}
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        try:
            for _ in range(_MOST_REDIRECTS):
                outgoing = Outgoing(method, path, merged, body, self._max_reply, sink)
                reply = await self._transport.request(outgoing, timeout=timeout)
                if reply.status not in (307, 308) and not (method == "GET" and reply.status in (301, 302, 303)):
                    return reply
                path = self._redirected(path, reply, what)
                timeout = deadline - loop.time()
                if reply.status in (301, 308) or method == "POST":
                    self._moved[method, target] = path
        except TransportTimeout as error:
            raise EnvTimeout(f"env {self.name!r}: {what}: {error}") from error
        except TransportError as error:
            raise self.error(f"{what}: {error}") from error
        raise self.error(f"{what}: more than {_MOST_REDIRECTS} redirects")

    def _redirected(self, path: str, reply: Reply, what: str) -> str:
        """Where a redirect leads; to another host is refused: the secret headers are for this one only."""
        here = urlsplit(self.endpoint.url)
        location = reply.headers.get("location", "")
        there = urlsplit(urljoin(f"{here.scheme}://{here.netloc}{path}", location))
        if not location or there.hostname != here.hostname:
            raise self.error(f"{what}: redirected to {location!r}, which is not this env")
        return there.path + (f"?{there.query}" if there.query else "")
