"""From a `SandboxSpec` to what the spawner is asked for."""

from __future__ import annotations

import asyncio
import os
import posixpath
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_env.errors import SandboxUnsupported
from agent_env.plugin.sandbox import BuildContext, HostImage
from agent_env.sandboxes.process.keeper.procs import MARK
from agent_env.sandboxes.process.sandbox import Launch
from agent_env.sandboxes.process.settings import EnvSettings, read_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_env.plugin.sandbox import Image, SandboxSpec
    from agent_env.sandboxes.process.options import ProcessOptions
    from agent_env.sandboxes.process.ports import Ports
    from agent_env.sandboxes.process.sandbox import ProcessSandbox

_SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
_WORKDIR = "/work"


@dataclass(frozen=True, slots=True)
class Plan:
    """A sandbox to be spawned: the ``spawn`` request without its id and folder, and how its commands run."""

    message: dict[str, Any]
    launch: Launch


class Planner:
    """Knows what this machine offers; makes plans."""

    def __init__(self, options: ProcessOptions, ports: Ports) -> None:
        self._options = options
        self._ports = ports

    @classmethod
    async def make(cls, options: ProcessOptions, ports: Ports) -> Planner:
        return cls(options, ports)

    async def prepare(self, image: Image, progress: Callable[[str], None] | None) -> None:
        """Get an image ready."""
        await self._interpreter(image, progress)

    async def _settings(self, image: Image) -> EnvSettings | None:
        if isinstance(image, HostImage):
            return None
        if not isinstance(image, BuildContext):
            raise SandboxUnsupported(
                f"the process sandbox runs env folders, not images: {image}; use a container provider for it",
                provider="process",
            )
        return await asyncio.to_thread(read_settings, image.path, image.dockerfile)

    async def _interpreter(self, image: Image, progress: Callable[[str], None] | None) -> str:  # noqa: ARG002
        await self._settings(image)
        return sys.executable

    async def plan(self, spec: SandboxSpec, identity: str, folder: Path) -> Plan:
        """The plan for a spec.

        Raises:
            SandboxUnsupported: something that is asked for cannot be done here.
        """
        settings = await self._settings(spec.image)
        self._refuse(spec)
        interpreter = await self._interpreter(spec.image, None)
        workdir = settings.workdir if settings else _WORKDIR
        argv: list[str] = []
        if spec.serves:
            command = spec.command or (settings.command if settings else None)
            if command is None:
                raise SandboxUnsupported(f"{spec.label}: no command to serve with", provider="process")
            argv = list(command)
        launch = Launch(
            workdir=workdir,
            isolation="none",
            network=True,
            interpreter=interpreter,
            env={**(settings.env if settings else {}), **spec.env},
            secrets=dict(spec.secrets),
            limits=self._limits(),
            port=self._ports.take() if spec.serves else 0,
        )
        root = str(folder / "root")
        env = self._environment(launch, identity, root)
        if spec.serves:
            env.update(MCP_HOST="127.0.0.1", MCP_PORT=str(launch.port), AGENTENV_UDS=str(folder / "sock" / "s"))
            env.setdefault("ENVIRONMENT_NAME", spec.label)
        message = {
            "argv": [_mapped(word, root, workdir, interpreter) for word in argv],
            "env": env,
            "cwd": root + workdir,
            "folders": [workdir],
            "copy": [str(spec.image.path), root + workdir] if isinstance(spec.image, BuildContext) else None,
            "limits": launch.limits,
        }
        return Plan(message, launch)

    def _refuse(self, spec: SandboxSpec) -> None:
        asked = [name for name in ("cpu", "memory_mb", "disk_mb", "pids") if getattr(spec.resources, name) is not None]
        if asked:
            raise SandboxUnsupported(
                f"{spec.label}: the process sandbox cannot keep the limits asked for here: {', '.join(asked)}",
                provider="process",
            )
        if spec.isolation not in {None, "none"}:
            raise SandboxUnsupported(
                f"{spec.label}: isolation {spec.isolation!r} was asked for; this machine's process sandbox has 'none'",
                provider="process",
            )
        if spec.network == "none":
            raise SandboxUnsupported(
                f"{spec.label}: network 'none' was asked for; without bubblewrap the process sandbox cannot keep it",
                provider="process",
            )

    def _limits(self) -> dict[str, int]:
        return {
            "core": 0,
            "fsize": self._options.file_mb * 1024 * 1024,
            "nofile": self._options.open_files,
            "cpu": self._options.cpu_s,
        }

    def _environment(self, launch: Launch, identity: str, root: str) -> dict[str, str]:
        """Explicit: nothing of the server's own environment but the place of its CA certificates."""
        env = {
            "PATH": f"{os.path.dirname(launch.interpreter)}:{_SYSTEM_PATH}",  # noqa: PTH120
            "HOME": root + launch.workdir,
            "TMPDIR": root + "/tmp",
            "LANG": "C.UTF-8",
            "PYTHONUNBUFFERED": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
            if name in os.environ:
                env[name] = os.environ[name]
        return {**env, **launch.env, **launch.secrets, MARK: identity}

    def exec_message(
        self, box: ProcessSandbox, identity: str, argv: list[str], cwd: str, env: dict[str, str]
    ) -> dict[str, Any]:
        """An ``exec`` request."""
        root = str(box.root)
        workdir = box.launch.workdir
        return {
            "of": box.id,
            "argv": [_mapped(word, root, workdir, box.launch.interpreter) for word in argv],
            "env": {
                **self._environment(box.launch, box.id, root),
                **env,
                "AGENTENV_EXEC_ID": identity,
                MARK: box.id,
            },
            "cwd": root + cwd,
            "limits": box.launch.limits,
        }


def _mapped(word: str, root: str, workdir: str, interpreter: str) -> str:
    """An argument that names a file of the sandbox by its absolute path, as the host sees it."""
    if word in {"python", "python3"}:
        return interpreter
    path = posixpath.normpath(word)
    if word.startswith("/") and (path == workdir or path.startswith(workdir + "/") or os.path.exists(root + path)):  # noqa: PTH110
        return root + path
    return word
