"""The Modal SDK, as far as it is used; imported when the first provider needs it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Protocol

from agent_env.plugin.sandboxing.sdks import import_sdk

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Aio(Protocol):
    """A function of the SDK in its async form."""

    async def aio(self, *args: Any, **options: Any) -> Any: ...


class SdkStream(Protocol):
    """Output of a command."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...


class SdkStdin(Protocol):
    """Input of a command."""

    drain: Aio

    def write(self, data: bytes) -> None: ...
    def write_eof(self) -> None: ...


class SdkProcess(Protocol):
    """A command under way (``modal.container_process.ContainerProcess``)."""

    wait: Aio

    @property
    def stdout(self) -> SdkStream: ...
    @property
    def stderr(self) -> SdkStream: ...
    @property
    def stdin(self) -> SdkStdin: ...


class SdkSandbox(Protocol):
    """``modal.Sandbox``."""

    exec: Aio
    poll: Aio
    terminate: Aio
    detach: Aio
    tunnels: Aio
    get_tags: Aio
    create_connect_token: Aio

    @property
    def object_id(self) -> str: ...
    @property
    def returncode(self) -> int | None: ...
    @property
    def filesystem(self) -> Any: ...
    @property
    def logs(self) -> Any: ...


class Sdk:
    """The SDK's modules."""

    def __init__(self) -> None:
        self.modal: Any
        self.errors: Any
        self.modal, self.errors, config = import_sdk(
            "modal", "modal", "modal.exception", "modal.config", plugin="agentenv-sandbox-modal", at_least="1.6.4"
        )
        self.config: Any = config.config


@functools.cache
def sdk() -> Sdk:
    """The SDK.

    Raises:
        PluginLoadError: it is missing, too old or broken; the message has the command that mends it.
    """
    return Sdk()
