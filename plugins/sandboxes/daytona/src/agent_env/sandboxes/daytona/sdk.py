"""The SDK: loaded when it is used, and as much of its types as this plugin relies on."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Protocol

from agent_env.plugin.sandboxing.sdks import import_sdk

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

NAME = "daytona"


@functools.cache
def load() -> Any:
    """The module ``daytona``; importing it takes a second or two, so call it off the event loop.

    Raises:
        PluginLoadError: it is missing, too old or broken; the message has the command that mends it.
    """
    return import_sdk("daytona", plugin="agentenv-sandbox-daytona", at_least="0.226.1")[0]


class ExecuteResponse(Protocol):
    """The end of a command."""

    exit_code: int | None
    result: str


class FileInfo(Protocol):
    """Facts of a file."""

    is_dir: bool
    size: float


class PreviewLink(Protocol):
    """How to reach a port."""

    url: str
    token: str


class Process(Protocol):
    """Commands of a sandbox."""

    async def exec(self, command: str, *, timeout: int | None = None) -> ExecuteResponse: ...


class FileSystem(Protocol):
    """Files of a sandbox."""

    async def upload_files(self, files: list[Any], timeout: int = ...) -> None: ...
    async def download_file(self, remote_path: str, timeout: int, /) -> bytes | None: ...
    async def get_file_info(self, path: str, request_timeout: float | None = None) -> FileInfo: ...


class Remote(Protocol):
    """A sandbox of the SDK."""

    id: str
    name: str
    labels: dict[str, str]
    state: Any
    error_reason: str | None

    @property
    def process(self) -> Process: ...
    @property
    def fs(self) -> FileSystem: ...
    async def delete(self, timeout: float | None = 60) -> None: ...
    async def set_ttl(self, ttl_minutes: int, request_timeout: float | None = None) -> None: ...
    async def set_labels(self, labels: dict[str, str], request_timeout: float | None = None) -> dict[str, str]: ...
    async def get_preview_link(self, port: int, request_timeout: float | None = None) -> PreviewLink: ...


class Snapshots(Protocol):
    """Snapshots of an organization."""

    async def get(self, name: str) -> Any: ...
    async def create(self, params: Any, *, on_logs: Callable[[str], None] | None = None, timeout: float = 0) -> Any: ...
    async def delete(self, snapshot: Any) -> None: ...
    async def activate(self, snapshot: Any) -> Any: ...


class Client(Protocol):
    """`daytona.AsyncDaytona`: bound to one event loop, to be closed."""

    snapshot: Snapshots

    async def create(self, params: Any, *, timeout: float = 60) -> Remote: ...
    async def get(self, sandbox_id_or_name: str, request_timeout: float | None = None) -> Remote: ...
    def list(self, query: Any = None, request_timeout: float | None = None) -> AsyncIterator[Remote]: ...
    async def close(self) -> None: ...


def state_of(thing: Any) -> str:
    """The word of a sandbox's or snapshot's state."""
    state: object = getattr(thing, "state", None)
    return str(getattr(state, "value", state) or "unknown").lower()
