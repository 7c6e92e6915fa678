"""The sandbox providers of an engine: its own, and those that tasks ask for by name."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, cast

from agent_env.episode.chain import ChainProvider
from agent_env.errors import PluginError, SandboxError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from agent_env.plugin.sandbox import SandboxProvider
    from agent_env.registry import Registry

log = logging.getLogger("agent_env.episode")

DEFAULT = "process"
CLOSE_TIMEOUT = 60.0
QUIET_S = 5.0
"""How long a start may take before it is said what is waited for: some SDKs try for a minute in silence."""


class Providers:
    """Makes each provider once, starts it when it is first needed, and closes it.

    Args:
        registry: where providers are found.
        sandbox: name of the engine's own provider, several names with commas for a chain, or the provider itself;
            `None` = ``process``.
        options: options as text, by provider name.

    Raises:
        PluginError: the engine's own provider, or one that options are for, is not installed.
        UsageError: options that do not fit.
    """

    def __init__(
        self,
        registry: Registry,
        sandbox: str | SandboxProvider | None,
        options: Mapping[str, Mapping[str, str]] | None,
    ) -> None:
        self._registry = registry
        self._options = {name: dict(given) for name, given in (options or {}).items()}
        self._made: dict[str, SandboxProvider] = {}
        self._starts: dict[str, asyncio.Task[None]] = {}
        self._closed = False
        for name in self._options:
            registry.info("sandbox", name)  # options that no provider would ever read are not ignored
        if sandbox is None or isinstance(sandbox, str):
            self.default = sandbox or DEFAULT
            self.make(self.default)
        else:
            self.default = sandbox.name
            self._made[self.default] = sandbox

    def make(self, name: str | None) -> SandboxProvider:
        """The provider of this name, `None` = the engine's own; not started.

        Raises:
            PluginError: it is not installed or does not load. UsageError: its options are wrong.
        """
        name = name or self.default
        provider = self._made.get(name)
        if provider is None:
            links = [link.strip() for link in name.split(",")]
            if len(links) > 1 and (not all(links) or len(set(links)) < len(links)):
                raise UsageError(f"sandbox {name!r}: name different providers, with one comma between two of them")
            provider = self._one(name) if len(links) == 1 else ChainProvider([self._one(link) for link in links])
            self._made[name] = provider
        return provider

    def _one(self, name: str) -> SandboxProvider:
        factory = cast("Callable[..., SandboxProvider]", self._registry.load("sandbox", name))
        return factory(**self._checked_options(name))

    def _checked_options(self, name: str) -> dict[str, Any]:
        given = self._options.get(name, {})
        model_string = self._registry.info("sandbox", name).options
        if model_string is None:
            if given:
                raise UsageError(f"sandbox provider {name!r} has no options; given: {', '.join(given)}")
            return {}
        from pydantic import BaseModel, ValidationError

        model = cast("type[BaseModel]", self._registry.load_string("sandbox", name, model_string))
        try:
            options = model.model_validate(given)
        except ValidationError as error:
            problems = "; ".join(
                f"{'.'.join(map(str, item['loc'])) or 'options'}: {item['msg']}" for item in error.errors()
            )
            known = ", ".join(model.model_fields)
            raise UsageError(f"options of sandbox provider {name!r}: {problems} (known options: {known})") from None
        return {field: getattr(options, field) for field in sorted(options.model_fields_set)}

    def problem(self, name: str) -> str | None:
        """Why tasks cannot have this provider, or `None`."""
        try:
            self.make(name)
        except (PluginError, UsageError, SandboxError) as error:
            return str(error)
        return None

    async def get(self, name: str | None) -> SandboxProvider:
        """The started provider.

        Raises:
            SandboxError: it cannot work here. PluginError, UsageError: as `make`.
        """
        if self._closed:
            raise SandboxError("the engine is closed")
        provider = self.make(name)
        key = name or self.default
        start = self._starts.get(key)
        if start is None or (start.done() and (start.cancelled() or start.exception() is not None)):
            start = self._starts[key] = asyncio.get_running_loop().create_task(
                _start(key, provider), name=f"start {key}"
            )
        if not start.done():
            await asyncio.wait({start})
        if start.cancelled():
            raise SandboxError(f"the start of sandbox provider {key!r} was cancelled", retryable=True)
        if (error := start.exception()) is not None:
            raise error
        return provider

    async def close(self) -> None:
        """Close every provider that was made. Idempotent."""
        self._closed = True
        for start in self._starts.values():
            start.cancel()
        if self._starts:
            await asyncio.wait(self._starts.values())
            for start in self._starts.values():
                if not start.cancelled():
                    start.exception()
        made, self._made = self._made, {}
        results = await asyncio.gather(*(_close(provider) for provider in made.values()), return_exceptions=True)
        for name, result in zip(made, results, strict=True):
            if isinstance(result, Exception):
                log.error("sandbox provider %s did not close: %s: %s", name, type(result).__name__, result)


async def _start(name: str, provider: SandboxProvider) -> None:
    words = "sandbox provider %s: its start takes longer than %g s; it is waited for"
    notice = asyncio.get_running_loop().call_later(QUIET_S, log.warning, words, name, QUIET_S)
    try:
        await provider.start()
    finally:
        notice.cancel()


async def _close(provider: SandboxProvider) -> None:
    async with asyncio.timeout(CLOSE_TIMEOUT):
        await provider.close()
