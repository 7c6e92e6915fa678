"""The E2B SDK, as far as it is used; imported when the first provider starts."""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING, Any, Protocol

from agent_env.plugin.sandboxing.sdks import import_sdk

if TYPE_CHECKING:
    from datetime import datetime


OLDEST = "2.49"
"""The last that older self-hosted servers understand."""


class SdkInfo(Protocol):
    """``e2b.SandboxInfo``."""

    sandbox_id: str
    metadata: dict[str, str]
    started_at: datetime
    end_at: datetime
    state: Any
    cpu_count: int
    memory_mb: int


class SdkSandbox(Protocol):
    """``e2b.AsyncSandbox``."""

    @property
    def sandbox_id(self) -> str: ...
    @property
    def traffic_access_token(self) -> str | None: ...
    @property
    def commands(self) -> Any: ...
    @property
    def files(self) -> Any: ...
    def get_host(self, port: int) -> str: ...


class Sdk:
    """The SDK's modules."""

    def __init__(self) -> None:
        modules = ("e2b", "e2b.exceptions", "e2b.api.client_async", "e2b.api", "e2b.connection_config", "httpx")
        self.e2b: Any
        self.errors: Any
        self.api_client: Any
        self.api: Any
        self.config: Any
        self.httpx: Any
        self.e2b, self.errors, self.api_client, self.api, self.config, self.httpx = import_sdk(
            "e2b", *modules, plugin="agentenv-sandbox-e2b", at_least=OLDEST
        )


@functools.cache
def sdk() -> Sdk:
    """The SDK.

    Raises:
        PluginLoadError: it is missing, too old or broken; the message has the command that mends it.
    """
    return Sdk()


async def loaded(at_least: str) -> Sdk:
    """The SDK, imported off the event loop: that takes a third of a second.

    Raises:
        PluginLoadError: as `sdk`; also when it is older than ``at_least``, which a service may ask for.
    """
    return await asyncio.to_thread(_loaded, at_least)


@functools.cache
def _loaded(at_least: str) -> Sdk:
    it = sdk()
    import_sdk("e2b", plugin="agentenv-sandbox-e2b", at_least=at_least)
    return it


def text_of(error: BaseException) -> str:
    """An error's message, never empty."""
    return str(error).strip() or type(error).__name__
