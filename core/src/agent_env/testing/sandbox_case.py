"""What sandbox checks are run on, and what they all do: open a provider, play, and see that nothing is left."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from agent_env.errors import SandboxError
from agent_env.plugin.sandbox import BuildContext, Resources, SandboxSpec
from agent_env.plugin.sandboxing.scratch import ScratchFolder
from agent_env.testing.sandbox_env import write_env

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
    from pathlib import Path

    from agent_env.plugin.sandbox import Image, Sandbox, SandboxProvider
    from agent_env.registry import Registry

Fault = Literal["auth", "rate_limit", "quota", "lost_reply", "unavailable"]
LABEL: Final = "agentenv-check"
_LEFT_DEADLINE = 30.0
_LEFT_POLL = 0.2


@dataclass(frozen=True, slots=True)
class SandboxCase:
    """What is checked.

    Attributes:
        name: the provider's name.
        options: its options, as ``--sandbox-option`` gives them.
        registry: where it is found; `None` = what is installed. Checks with a second process need the latter.
        short_ttl_s: the shortest life that the provider can keep, `None` = too long to wait for in a check.
        faulty: makes a provider whose service has this fault, `None` for a fault that cannot be provoked.
        cancels: moments spread over a create at which it is cancelled.
        startup_timeout: seconds for a server that never answers.
        timeout: seconds for one create.
        resources: limits that are asked for, each by itself; a provider may count in steps of its own.
    """

    name: str
    options: Mapping[str, str] = field(default_factory=dict[str, str])
    registry: Registry | None = None
    short_ttl_s: float | None = 3.0
    faulty: Callable[[Fault], SandboxProvider | None] = lambda _: None
    cancels: int = 8
    startup_timeout: float = 4.0
    timeout: float = 300.0
    resources: Resources = field(default_factory=lambda: Resources(cpu=1.0, memory_mb=256, pids=100, disk_mb=2048))

    def plugins(self) -> Registry:
        """The registry."""
        from agent_env.registry import default_registry

        return self.registry or default_registry()

    def provider(self) -> SandboxProvider:
        """A fresh provider, not started."""
        from agent_env.episode.providers import Providers

        return Providers(self.plugins(), self.name, {self.name: self.options}).make(None)


class Play:
    """One check under way: a provider, an env to deploy, and the label that all its sandboxes carry."""

    def __init__(self, case: SandboxCase, provider: SandboxProvider, folder: Path) -> None:
        self.case = case
        self.provider = provider
        self.folder = folder
        self.image: Image = BuildContext(folder / "agentenv-check")
        self.mark = secrets.token_hex(6)

    @property
    def labels(self) -> dict[str, str]:
        """The label."""
        return {LABEL: self.mark}

    def spec(self, **changes: Any) -> SandboxSpec:
        """A spec of the env."""
        spec = SandboxSpec(image=self.image, labels=self.labels, label="agentenv-check", ttl_s=900.0)
        return replace(spec, **changes)

    async def create(self, provider: SandboxProvider | None = None, **changes: Any) -> Sandbox:
        """A sandbox."""
        return await (provider or self.provider).create(self.spec(**changes), timeout=self.case.timeout)

    @asynccontextmanager
    async def second(self, *, start: bool = True) -> AsyncGenerator[SandboxProvider, None]:
        """Another provider, as another server would have it."""
        other = self.case.provider()
        try:
            if start:
                await other.start()
            yield other
        finally:
            await other.close()

    async def ids(self, provider: SandboxProvider | None = None) -> list[str]:
        """Ids of the check's sandboxes that still are."""
        found = (provider or self.provider).list(self.labels)
        return [record.id async for record in found if record.status != "gone"]

    async def none_left(self, provider: SandboxProvider | None = None, doing: str = "") -> None:
        """Wait until no sandbox of the check is left; what is left nevertheless is ended and reported."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _LEFT_DEADLINE
        while (left := await self.ids(provider)) and loop.time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(_LEFT_POLL)
        for sandbox_id in left:
            with contextlib.suppress(SandboxError):
                await (provider or self.provider).destroy(sandbox_id)
        assert left == [], f"{doing or 'the check'} left sandboxes behind: {', '.join(left)}"

    async def child(self, command: str, **arguments: Any) -> asyncio.subprocess.Process:
        """Another process that uses the provider; see `agent_env.testing.sandbox_child`."""
        request = {
            "command": command,
            "name": self.case.name,
            "options": dict(self.case.options),
            "folder": str(self.folder),
            "mark": self.mark,
            **arguments,
        }
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "agent_env.testing.sandbox_child",
            json.dumps(request),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )


def play(case: SandboxCase, work: Callable[[Play], Awaitable[None]], *, prepare: bool = True) -> None:
    """Run a check: the provider is opened before and closed after, and then nothing of the check may be left."""
    asyncio.run(_play(case, work, prepare=prepare))


async def _play(case: SandboxCase, work: Callable[[Play], Awaitable[None]], *, prepare: bool) -> None:
    with ScratchFolder("agentenv-checks") as folder:
        await asyncio.to_thread(write_env, folder / "agentenv-check")
        provider = case.provider()
        one = Play(case, provider, folder)
        try:
            await provider.start()
            if prepare:
                await provider.prepare(one.image)
            await work(one)
        finally:
            await provider.close()
        async with one.second(start=False) as witness:
            await one.none_left(witness)
