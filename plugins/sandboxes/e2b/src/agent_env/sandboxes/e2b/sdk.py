"""The E2B SDK, as far as it is used; imported when the first provider starts."""

from __future__ import annotations

import asyncio
import functools
import importlib
from typing import TYPE_CHECKING, Any, Protocol

from agent_env.errors import PluginLoadError

if TYPE_CHECKING:
    from datetime import datetime


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
        try:
            self.e2b: Any = importlib.import_module("e2b")
            self.errors: Any = importlib.import_module("e2b.exceptions")
            self.api_client: Any = importlib.import_module("e2b.api.client_async")
            self.api: Any = importlib.import_module("e2b.api")
            self.config: Any = importlib.import_module("e2b.connection_config")
            self.httpx: Any = importlib.import_module("httpx")
        except ImportError as error:
            raise PluginLoadError(
                f"the E2B SDK cannot be imported ({error}); install it with: pip install agentenv-sandbox-e2b"
            ) from error


@functools.cache
def sdk() -> Sdk:
    """The SDK.

    Raises:
        PluginLoadError: it is not installed; the message has the command that installs it.
    """
    return Sdk()


async def loaded() -> Sdk:
    """The SDK, imported off the event loop: that takes a third of a second."""
    return await asyncio.to_thread(sdk)


def text_of(error: BaseException) -> str:
    """An error's message, never empty."""
    return str(error).strip() or type(error).__name__
