"""The Modal SDK, as far as it is used; imported when the first provider needs it."""

from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING, Any, Protocol

from agent_env.errors import PluginLoadError

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
        try:
            self.modal: Any = importlib.import_module("modal")
            self.errors: Any = importlib.import_module("modal.exception")
            self.config: Any = importlib.import_module("modal.config").config
        except ImportError as error:
            raise PluginLoadError(
                f"the Modal SDK cannot be imported ({error}); install it with: pip install agentenv-sandbox-modal"
            ) from error


@functools.cache
def sdk() -> Sdk:
    """The SDK.

    Raises:
        PluginLoadError: it is not installed; the message has the command that installs it.
    """
    return Sdk()
