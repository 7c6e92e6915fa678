"""Several sandbox providers in a row: the next one takes over while one is out of quota or out of reach."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agent_env.episode.machines import machine_image
from agent_env.errors import QuotaExceeded, SandboxError, SandboxNotFound, SandboxUnavailable
from agent_env.plugin.sandbox import HostImage, SandboxProvider

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence

    from agent_env.plugin.sandbox import CodeRequest, Image, Sandbox, SandboxRecord, SandboxSpec

log = logging.getLogger("agent_env.episode")

FAILS_OVER = (QuotaExceeded, SandboxUnavailable)
REST_S = 30.0
"""How long a provider that could not create is passed over, as long as another one can."""


class ChainProvider(SandboxProvider):
    """Creates with the first provider that can.

    A provider is passed over for a while when a create met a used-up quota or an unreachable service; any other error
    is the caller's: another provider would not mend a broken image.

    Args:
        providers: in order of preference, at least one.
    """

    def __init__(self, providers: Sequence[SandboxProvider]) -> None:
        self.name = ",".join(provider.name for provider in providers)
        self.capabilities = providers[0].capabilities
        self.providers: tuple[SandboxProvider, ...] = tuple(providers)
        self._rests_until: dict[str, float] = {}
        self._usable: Sequence[SandboxProvider] = tuple(providers)

    async def start(self) -> None:
        """Start all; those that cannot start are left out as long as one can."""
        usable, errors = await self._each(lambda provider: provider.start())
        if not usable:
            raise errors[0]
        self._usable = usable
        self.capabilities = usable[0].capabilities

    @property
    def usable(self) -> Sequence[SandboxProvider]:
        """Those that have started."""
        return self._usable

    async def close(self) -> None:
        """Close all."""
        _, errors = await self._each(lambda provider: provider.close())
        if errors:
            raise errors[0]

    async def prepare(self, image: Image, *, progress: Callable[[str], None] | None = None) -> None:
        """Prepare on all; it fails only when it fails on all."""
        usable, errors = await self._each(lambda provider: provider.prepare(image, progress=progress), self._usable)
        if not usable:
            raise errors[0]

    async def create(self, spec: SandboxSpec, *, timeout: float = 300.0) -> Sandbox:
        """Create with the first that can.

        Raises:
            SandboxError: of the last one tried.
        """
        last: SandboxError | None = None
        for provider in self._in_order():
            own = spec
            if isinstance(spec.image, HostImage):
                own = replace(spec, image=machine_image(provider.capabilities))
            try:
                sandbox = await provider.create(own, timeout=timeout)
            except FAILS_OVER as error:
                log.warning("sandbox provider %s: %s; the next one takes over", provider.name, error)
                self._rests_until[provider.name] = time.monotonic() + REST_S
                last = error
            else:
                self._rests_until.pop(provider.name, None)
                return sandbox
        assert last is not None
        raise last

    def _in_order(self) -> Sequence[SandboxProvider]:
        """Those that do not rest, then those that do."""
        now = time.monotonic()
        return sorted(self._usable, key=lambda provider: self._rests_until.get(provider.name, 0.0) > now)

    async def attach(self, sandbox_id: str) -> Sandbox:
        """Attach wherever it is."""
        for provider in self._usable:
            try:
                return await provider.attach(sandbox_id)
            except SandboxNotFound:
                continue
        raise SandboxNotFound(f"no sandbox {sandbox_id!r} on {self.name}", provider=self.name, sandbox_id=sandbox_id)

    async def list(self, labels: Mapping[str, str] | None = None) -> AsyncIterator[SandboxRecord]:
        """Those of all."""
        for provider in self._usable:
            async for record in provider.list(labels):
                yield record

    async def destroy(self, sandbox_id: str) -> bool:
        """End it wherever it is."""
        for provider in self._usable:
            if await provider.destroy(sandbox_id):
                return True
        return False

    async def reap(self, *, older_than_s: float | None = None) -> Sequence[str]:
        """Reap on all."""
        return [found for provider in self._usable for found in await provider.reap(older_than_s=older_than_s)]

    async def run_code(self, image: Image, request: CodeRequest) -> Any:
        """Run where the next create would go."""
        order = self._in_order()
        for provider in order[:-1]:
            own = machine_image(provider.capabilities) if isinstance(image, HostImage) else image
            try:
                return await provider.run_code(own, request)
            except FAILS_OVER as error:
                log.warning("sandbox provider %s: %s; the next one takes over", provider.name, error)
                self._rests_until[provider.name] = time.monotonic() + REST_S
        last = order[-1]
        own = machine_image(last.capabilities) if isinstance(image, HostImage) else image
        return await last.run_code(own, request)

    async def _each(
        self,
        work: Callable[[SandboxProvider], Coroutine[Any, Any, None]],
        providers: Sequence[SandboxProvider] | None = None,
    ) -> tuple[Sequence[SandboxProvider], Sequence[Exception]]:
        """Those on which ``work`` went well, and the errors of the others."""
        chosen = self.providers if providers is None else tuple(providers)
        results = await asyncio.gather(*(work(provider) for provider in chosen), return_exceptions=True)
        usable: Sequence[SandboxProvider] = ()
        errors: Sequence[Exception] = ()
        for provider, result in zip(chosen, results, strict=True):
            if isinstance(result, Exception):
                log.warning("sandbox provider %s: %s", provider.name, result)
                errors = (*errors, result)
            elif result is None:
                usable = (*usable, provider)
            else:
                raise result
        return usable, errors
