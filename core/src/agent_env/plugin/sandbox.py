"""The contract of a sandbox provider: where envs run.

A provider is made once per server with its options as keywords and used from one event loop. `create` is all or
nothing and safe to cancel: a create that was cancelled or whose answer was lost leaves nothing running. Every sandbox
has a finite life on the provider's side, or a label and a reaper where the provider has none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, Self

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

Isolation = Literal["none", "shared", "namespace", "container", "vm"]
ISOLATIONS: Final[tuple[Isolation, ...]] = ("none", "shared", "namespace", "container", "vm")
"""How far a sandbox is from its host: no isolation; one namespace shared by several sandboxes; own namespaces on the
host's kernel; a container; a virtual machine."""


# -- what to run ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BuildContext:
    """An image built from a folder: an env of a bundle.

    Attributes:
        path: the folder. Its ``Dockerfile``, ``requirements.txt`` and ``agentenv.toml`` say how to build and start it.
        dockerfile: the Dockerfile's name inside the folder.
    """

    path: Path
    dockerfile: str = "Dockerfile"


@dataclass(frozen=True, slots=True)
class ImageRef:
    """An image of a registry or of the local engine, by name."""

    name: str


@dataclass(frozen=True, slots=True)
class TemplateRef:
    """A template or snapshot of a cloud, by id."""

    id: str


@dataclass(frozen=True, slots=True)
class HostImage:
    """The host itself with the server's own Python (`process` only): an empty work folder."""


Image = BuildContext | ImageRef | TemplateRef | HostImage


@dataclass(frozen=True, slots=True)
class Resources:
    """Limits; `None` = not asked for. A limit that a provider cannot keep is refused, never ignored."""

    cpu: float | None = None
    memory_mb: int | None = None
    disk_mb: int | None = None
    pids: int | None = None


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """What to create.

    Attributes:
        image: what runs.
        serves: whether ``image`` starts a server that must answer before `SandboxProvider.create` returns. Without
            it the sandbox idles and only runs what `Sandbox.exec` is given.
        command: argv of the server instead of the image's own.
        port: TCP port the server listens on where it cannot use a unix socket; the provider passes it as ``MCP_PORT``.
        health: path whose HTTP answer, whatever its status below 500, means that the server is ready.
        env: environment variables.
        secrets: further variables; never logged, never in labels.
        resources: limits.
        network: ``"none"`` = no way out, ``"open"`` = as the host, ``None`` = the provider's default.
        isolation: the least isolation that will do; `None` = what the provider has. Less than this is refused.
        ttl_s: seconds after which the sandbox ends by itself.
        startup_timeout: seconds for the server to become ready.
        labels: marks to find the sandbox by; the provider adds owner, create id and expiry.
        label: short name for messages and logs, such as the env's name.
    """

    image: Image
    serves: bool = True
    command: tuple[str, ...] | None = None
    port: int = 18765
    health: str = "/.well-known/agent-env.json"
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    secrets: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    resources: Resources = field(default_factory=Resources)
    network: Literal["none", "open"] | None = None
    isolation: Isolation | None = None
    ttl_s: float = 7200.0
    startup_timeout: float = 60.0
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    label: str = "sandbox"


# -- what comes back --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Endpoint:
    """How to reach the server of a sandbox.

    Attributes:
        url: base URL without a trailing slash. With ``uds`` its host is only a name.
        uds: path of the unix socket to connect to instead of the URL's host, or `None`.
        headers: secret headers that every request needs.
        expires_at: Unix time after which to ask again, or `None`.
    """

    url: str
    uds: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    expires_at: float | None = None


@dataclass(frozen=True, slots=True)
class ExecResult:
    """The end of a command; a non-zero ``exit_code`` is a result, not an error.

    Attributes:
        exit_code: ``128 + n`` when signal n ended it.
        stdout: decoded with replacement, cut at ``max_output``.
        stderr: likewise.
        truncated: something was cut.
    """

    exit_code: int
    stdout: str
    stderr: str
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class SandboxRecord:
    """What `SandboxProvider.list` says of one sandbox.

    Attributes:
        id: the provider's id.
        labels: all labels, those of AgentEnv included.
        created_at: Unix time.
        expires_at: Unix time, or `None` when the provider does not say.
        owner_alive: whether the process that owns it still runs; `None` = cannot be told from here.
        status: ``starting``, ``running``, ``exited`` or ``gone``.
    """

    id: str
    labels: Mapping[str, str]
    created_at: float
    expires_at: float | None
    owner_alive: bool | None
    status: str


@dataclass(frozen=True, slots=True)
class CodeRequest:
    """Python code of a bundle to run outside the server: a verifier or a ``run_code`` script.

    Attributes:
        folder: folder with the code; only ``.py`` files of it are needed.
        file: the file inside the folder that defines ``function``.
        function: name of a function, sync or async. ``run`` is passed as a keyword only when its signature has it.
        args: positional arguments, JSON values.
        run: JSON value of the graded conversation for a parameter ``run``, or `None`
            (`agent_env.episode.grading` makes the object from it).
        runner: path of the standard-library-only Python file that reads the request from stdin as JSON, runs it and
            writes ``{"ok": value}`` or ``{"error": text}``; see `agent_env.episode.code_runner`.
        timeout: seconds.
        max_output: most bytes of the result.
    """

    folder: Path
    file: str
    function: str
    args: tuple[Any, ...]
    runner: Path
    run: Any = None
    timeout: float = 600.0
    max_output: int = 50 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Facts of a provider; a conformance test that needs a missing one is skipped with that reason."""

    isolation: Isolation
    exec: bool = True
    files: bool = True
    endpoint: Literal["uds", "tcp", "https"] = "tcp"
    websocket: bool = True
    extend: bool = True
    max_ttl_s: float | None = None
    network_none: bool = False
    limits: frozenset[str] = frozenset()
    server_ttl: bool = False
    local: bool = False


# -- the contract -----------------------------------------------------------------------------------------------------


class Sandbox(ABC):
    """One sandbox. `close` is idempotent, finishes even when its caller is cancelled, and leaves nothing running."""

    id: str
    labels: Mapping[str, str]
    isolation: Isolation
    expires_at: float | None

    @abstractmethod
    async def exec(
        self,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes | None = None,
        timeout: float = 60.0,
        max_output: int = 1024 * 1024,
    ) -> ExecResult:
        """Run a command to its end. Absolute paths live under the sandbox's root.

        Raises:
            SandboxTimeout: it ran longer than ``timeout``; it was killed with all its children.
            SandboxGone: the sandbox ended.
        """

    @abstractmethod
    async def read(self, path: str, *, max_bytes: int = 64 * 1024 * 1024) -> bytes:
        """Content of a file.

        Raises:
            FileNotFoundError: there is none; IsADirectoryError: it is a folder; ValueError: larger than ``max_bytes``.
        """

    @abstractmethod
    async def write(self, path: str, data: bytes, *, mode: int | None = None) -> None:
        """Write a file, its folders included."""

    @abstractmethod
    async def upload(self, local: Path, remote: str) -> None:
        """Copy a local file or folder (its content) to ``remote``."""

    @abstractmethod
    async def download(self, remote: str, local: Path) -> None:
        """Copy a file or folder of the sandbox to ``local``."""

    @abstractmethod
    async def endpoint(self) -> Endpoint:
        """How to reach the server.

        Raises:
            SandboxUnsupported: the sandbox was created with ``serves=False``.
        """

    @abstractmethod
    async def extend(self, ttl_s: float) -> None:
        """Let it live ``ttl_s`` seconds from now."""

    @abstractmethod
    async def status(self) -> Literal["starting", "running", "exited", "gone"]:
        """What it does now."""

    @abstractmethod
    async def exit_code(self) -> int | None:
        """Exit code of the server, `None` while it runs or when it cannot be known."""

    @abstractmethod
    async def logs(self, tail: int = 4096) -> str:
        """The last ``tail`` bytes that the server wrote."""

    @abstractmethod
    async def close(self) -> None:
        """End it and everything in it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.close()


class SandboxProvider(ABC):
    """Creates sandboxes. Use it as ``async with provider:``; leaving it ends what it made."""

    name: str
    capabilities: Capabilities

    async def start(self) -> None:
        """Get ready: check credentials, start watchers, `reap` what a killed predecessor on this machine left."""

    @abstractmethod
    async def close(self) -> None:
        """End every sandbox of this object, wait for creates under way, stop its tasks. Idempotent."""

    async def prepare(self, image: Image, *, progress: Callable[[str], None] | None = None) -> None:
        """Build or pull ``image`` now, once per content digest, outside the deadlines of `create`.

        Raises:
            BuildFailed: with the end of the build's log; SandboxUnsupported: an image of a kind it does not run.
        """

    @abstractmethod
    async def create(self, spec: SandboxSpec, *, timeout: float = 300.0) -> Sandbox:
        """A new sandbox; with ``spec.serves`` its server has answered the health path.

        Raises:
            SandboxError: the subclass says what happened; `SandboxError.retryable` whether to try again.
        """

    @abstractmethod
    async def attach(self, sandbox_id: str) -> Sandbox:
        """The sandbox with this id, from any process of the same user.

        Raises:
            SandboxNotFound: there is none.
        """

    @abstractmethod
    def list(self, labels: Mapping[str, str] | None = None) -> AsyncIterator[SandboxRecord]:
        """Sandboxes made by AgentEnv that carry all ``labels``."""

    @abstractmethod
    async def destroy(self, sandbox_id: str) -> bool:
        """End a sandbox; False when it was already gone."""

    @abstractmethod
    async def reap(self, *, older_than_s: float | None = None) -> Sequence[str]:
        """End what nobody owns any more: expired, or its owner is dead. Never touches another live owner's.

        Args:
            older_than_s: also what dead or unknown owners made more than this long ago.

        Returns:
            The ids that were ended.
        """

    async def run_code(self, image: Image, request: CodeRequest) -> Any:
        """Run Python code of a bundle in ``image``'s Python, never in the sandbox of an episode.

        This general form makes a sandbox of the image, runs `CodeRequest.runner` in it with ``exec`` and ends it.
        A provider with something cheaper overrides it.

        Returns:
            The function's JSON value.

        Raises:
            CodeError: it raised, or returned what is no JSON; SandboxTimeout: it ran too long; other SandboxErrors.
        """
        from agent_env.plugin.sandboxing.code import run_code_by_exec

        return await run_code_by_exec(self, image, request)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.close()
