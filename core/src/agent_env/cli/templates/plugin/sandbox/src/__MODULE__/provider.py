"""The provider: creates sandboxes, and ends what nobody owns any more."""

from __future__ import annotations

import getpass
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_env.plugin.sandbox import SandboxProvider
from agent_env.registry import default_registry

from __MODULE__.sandbox import __CLASS__Sandbox

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from agent_env.plugin.sandbox import CodeRequest, Image, Sandbox, SandboxRecord, SandboxSpec


class __CLASS__(SandboxProvider):
    """Made once for each server with its options as keywords, and used from one event loop."""

    name = "__NAME__"

    def __init__(self, *, state_dir: Path | None = None) -> None:
        folder = state_dir or Path(tempfile.gettempdir()) / f"__NAME__-{getpass.getuser()}"
        self._inner: SandboxProvider = default_registry().load("sandbox", "process")(state_dir=folder)
        # What the service can do; what it cannot do is refused with `SandboxUnsupported`, never approximated.
        self.capabilities = self._inner.capabilities

    async def start(self) -> None:
        """Check credentials, start watchers, and reap what a killed predecessor on this machine left."""
        await self._inner.start()
        self.capabilities = self._inner.capabilities

    async def close(self) -> None:
        """End every sandbox of this object and wait for creates under way. Called twice, it does nothing more."""
        await self._inner.close()

    async def prepare(self, image: Image, *, progress: Callable[[str], None] | None = None) -> None:
        """Build or pull the image, once for each content; `BuildFailed` carries the end of the log."""
        await self._inner.prepare(image, progress=progress)

    async def create(self, spec: SandboxSpec, *, timeout: float = 300.0) -> Sandbox:
        """All or nothing: cancelled at any await, or when the service's answer is lost, nothing keeps running.

        Make an id before the request (`agent_env.plugin.sandboxing.lease.new_id`), send it as a label with the owner and the
        expiry (`agent_env.plugin.sandboxing.lease.owner`), and end what carries the id when the create does not come back.
        """
        return __CLASS__Sandbox(await self._inner.create(spec, timeout=timeout))

    async def attach(self, sandbox_id: str) -> Sandbox:
        """The sandbox with this id, from any process of the same user; `SandboxNotFound` when there is none."""
        return __CLASS__Sandbox(await self._inner.attach(sandbox_id))

    def list(self, labels: Mapping[str, str] | None = None) -> AsyncIterator[SandboxRecord]:
        """Those of AgentEnv alone that carry all the labels, whoever made them."""
        return self._inner.list(labels)

    async def destroy(self, sandbox_id: str) -> bool:
        """End it; False when it was gone already."""
        return await self._inner.destroy(sandbox_id)

    async def reap(self, *, older_than_s: float | None = None) -> Sequence[str]:
        """End what is expired or whose owner is dead (`agent_env.plugin.sandboxing.lease.may_reap`), never a live owner's."""
        return await self._inner.reap(older_than_s=older_than_s)

    async def run_code(self, image: Image, request: CodeRequest) -> Any:
        """Run a verifier. Without this method it runs by `exec` in a sandbox made for it, which every service can."""
        return await self._inner.run_code(image, request)
