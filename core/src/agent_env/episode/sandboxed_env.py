"""An env in a sandbox: its client, its address for verifiers, and how it ended."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from agent_env.env.client import EnvClient
from agent_env.env.relay import Relay
from agent_env.errors import SandboxNotFound

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from agent_env.plugin.sandbox import Endpoint, Isolation, Sandbox

log = logging.getLogger("agent_env.episode")

ROLE_HEADER = "AgentEnv-Role"
LOG_TAIL = 2000


class SandboxedEnv:
    """An env that runs in a sandbox. `close` ends the sandbox and everything that talks to it."""

    __slots__ = ("_clients", "_closed", "_endpoint", "handle", "name", "sandbox")

    handle: EnvClient

    def __init__(self, name: str, sandbox: Sandbox) -> None:
        self.name = name
        self.sandbox = sandbox
        self._clients: list[EnvClient] = []
        self._endpoint: Endpoint | None = None
        self._closed = False

    @property
    def id(self) -> str:
        """The sandbox's id."""
        return self.sandbox.id

    @property
    def isolation(self) -> Isolation:
        """What its sandbox really has."""
        return self.sandbox.isolation

    async def open(self) -> None:
        """Connect.

        Raises:
            SandboxError, EnvError: the env does not answer.
        """
        self._endpoint = await self.sandbox.endpoint()
        self.handle = await self._client(self._endpoint)

    async def _client(self, endpoint: Endpoint) -> EnvClient:
        client = EnvClient(endpoint, name=self.name)
        self._clients.append(client)
        await client.open()
        return client

    async def as_role(self, role: str) -> EnvClient:
        """A client whose requests carry the role."""
        endpoint = self._endpoint or await self.sandbox.endpoint()
        return await self._client(replace(endpoint, headers={**endpoint.headers, ROLE_HEADER: role}))

    @asynccontextmanager
    async def mcp_url(self) -> AsyncGenerator[str, None]:
        """An http URL on loopback; a relay listens there for as long as it is needed, and no longer."""
        endpoint = self._endpoint or await self.sandbox.endpoint()
        async with Relay(endpoint) as relay:
            yield relay.url + self.handle.mcp_path

    async def why_gone(self) -> str | None:
        """How the sandbox ended."""
        with contextlib.suppress(SandboxNotFound):
            status = await self.sandbox.status()
            if status not in {"exited", "gone"}:
                return None
        code = tail = None
        with contextlib.suppress(Exception):
            code = await self.sandbox.exit_code()
        with contextlib.suppress(Exception):
            tail = (await self.sandbox.logs(LOG_TAIL)).strip()
        how = "ended by itself" if code is None else f"ended with exit code {code}"
        return f"{how}; its last output:\n{tail}" if tail else f"{how}, without output"

    async def close(self) -> None:
        """End the sandbox, then let go of the connections. Idempotent."""
        if self._closed:
            return
        self._closed = True
        clients, self._clients = self._clients, []
        work = [self.sandbox.close(), *(client.close(end_session=False) for client in clients)]
        for result in await asyncio.gather(*work, return_exceptions=True):
            if isinstance(result, Exception):
                log.warning("teardown of env %r: %s: %s", self.name, type(result).__name__, result)
