"""From a `SandboxSpec` to what the spawner is asked for."""

from __future__ import annotations

import asyncio
import os
import posixpath
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from agent_env.errors import SandboxUnsupported
from agent_env.plugin.sandbox import BuildContext, HostImage, Resources
from agent_env.sandboxes.process import bwrap, cgroups, limits
from agent_env.sandboxes.process.keeper.procs import MARK
from agent_env.sandboxes.process.pythons import Pythons, cache_root
from agent_env.sandboxes.process.sandbox import Launch
from agent_env.sandboxes.process.settings import EnvSettings, read_settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from agent_env.plugin.sandbox import Image, Isolation, SandboxSpec
    from agent_env.sandboxes.process.cgroups import Cgroups
    from agent_env.sandboxes.process.limits import Limits
    from agent_env.sandboxes.process.options import ProcessOptions
    from agent_env.sandboxes.process.ports import Ports
    from agent_env.sandboxes.process.sandbox import ProcessSandbox

_SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
_WORKDIR = "/work"
_BUBBLEWRAPS = 2
RANK: dict[Isolation, int] = {"none": 0, "shared": 1, "namespace": 2, "container": 3, "vm": 4}


@dataclass(frozen=True, slots=True)
class Plan:
    """A sandbox to be spawned: the ``spawn`` request without its id and folder, and how its commands run."""

    message: dict[str, Any]
    launch: Launch


class Planner:
    """Knows what this machine offers; makes plans."""

    def __init__(
        self, options: ProcessOptions, ports: Ports, bubblewrap: bwrap.Bubblewrap | None, why: str, here: Cgroups
    ) -> None:
        self.bubblewrap = bubblewrap
        self.cgroups = here
        self.why_not = why
        self.pythons = Pythons(cache_root(options.cache_dir), options.build_timeout_s)
        self._options = options
        self._ports = ports
        self._paths: dict[str, tuple[str, ...]] = {}
        self._known: dict[Image, tuple[EnvSettings | None, str]] = {}

    @classmethod
    async def make(cls, options: ProcessOptions, ports: Ports) -> Planner:
        """Look at this machine.

        Raises:
            SandboxUnsupported: the options require what cannot be had here: isolation, or limits for all sandboxes.
        """
        found: bwrap.Bubblewrap | None = None
        why = "the option isolation=none turns it off"
        if options.isolation != "none":
            found, why = await bwrap.find()
            if found is None and options.isolation == "namespace":
                raise SandboxUnsupported(f"isolation=namespace was asked for, but {why}", provider="process")
            if found is not None:
                found = bwrap.Bubblewrap(found.program, tuple(str(path) for path in options.readable))
        here = await asyncio.to_thread(cgroups.look)
        given = [name for name in sorted(cgroups.CONTROLLERS) if getattr(options, name) is not None]
        if missing := [name for name in given if name in here.why_not]:
            raise SandboxUnsupported(
                f"limits for all sandboxes ({', '.join(missing)}) were asked for, which cannot be kept: "
                f"{_reasons(missing, here)}; {cgroups.mend()}",
                provider="process",
            )
        return cls(options, ports, found, why, here)

    async def resolve(
        self, image: Image, progress: Callable[[str], None] | None = None
    ) -> tuple[EnvSettings | None, str]:
        """How an image is started and with which Python, built when it has to be; read once per provider.

        Raises:
            SandboxUnsupported: it cannot be run here; BuildFailed: its Python environment cannot be built.
        """
        known = self._known.get(image)
        if known is None:
            settings = await self._settings(image)
            known = settings, await self._interpreter(image, settings, progress)
            self._known[image] = known
        return known

    async def _settings(self, image: Image) -> EnvSettings | None:
        """How an env is started; None for the host itself."""
        if isinstance(image, HostImage):
            return None
        if not isinstance(image, BuildContext):
            raise SandboxUnsupported(
                f"the process sandbox runs env folders, not images: {image}; use a container provider for it",
                provider="process",
            )
        return await asyncio.to_thread(read_settings, image.path, image.dockerfile)

    async def _interpreter(
        self, image: Image, settings: EnvSettings | None, progress: Callable[[str], None] | None
    ) -> str:
        """The Python of an image, built when it has to be."""
        if settings is None or not isinstance(image, BuildContext):
            return sys.executable
        return await self.pythons.interpreter(image.path, settings.requirements, progress)

    async def python_paths(self, interpreter: str) -> tuple[str, ...]:
        """What has to be readable for an interpreter."""
        if interpreter not in self._paths:
            self._paths[interpreter] = await bwrap.python_paths(interpreter)
        return self._paths[interpreter]

    async def plan(
        self, spec: SandboxSpec, settings: EnvSettings | None, interpreter: str, identity: str, folder: Path
    ) -> Plan:
        """The plan to spawn a spec, which `refuse` let pass.

        Raises:
            SandboxUnsupported: nothing says how to start it.
        """
        isolated = self.bubblewrap is not None
        if isolated:
            await self.python_paths(interpreter)
        argv: list[str] = []
        if spec.serves:
            command = spec.command or (settings.command if settings else None)
            if command is None:
                raise SandboxUnsupported(f"{spec.label}: no command to serve with", provider="process")
            argv = list(command)
        port = ((settings and settings.port) or spec.port) if isolated else self._ports.take()
        launch = Launch(
            workdir=settings.workdir if settings else _WORKDIR,
            isolation="namespace" if isolated else "none",
            network=not isolated or spec.network == "open",
            interpreter=interpreter,
            env={**(settings.env if settings else {}), **spec.env},
            secrets=dict(spec.secrets),
            limits=self.limits(),
            port=port,
        )
        if isolated and launch.network:
            launch.port = self._ports.take()
        env = self._environment(launch, identity, folder)
        if spec.serves:
            sockets = bwrap.SOCKET_FOLDER if isolated else str(folder / "sock")
            env.update(MCP_HOST="127.0.0.1", MCP_PORT=str(launch.port), AGENTENV_UDS=f"{sockets}/s")
            env.setdefault("ENVIRONMENT_NAME", spec.label)
        workdir = str(folder / "root") + launch.workdir
        context = spec.image.path if isinstance(spec.image, BuildContext) else None
        return Plan(
            {
                "op": "spawn",
                "wrapped": isolated,
                "argv": self._command(launch, folder, argv, launch.workdir, context) if argv else [],
                "env": env,
                "cwd": "/" if isolated else workdir,
                "folders": [launch.workdir],
                "copy": [str(context), workdir] if context is not None else None,
                "limits": launch.limits,
            },
            launch,
        )

    def refuse(self, spec: SandboxSpec) -> None:
        """Raise for what is asked for and cannot be kept.

        Raises:
            SandboxUnsupported: it says what.
        """
        have: Isolation = "none" if self.bubblewrap is None else "namespace"
        if what := self._limits_refused(spec) or limits.nonsense(spec.resources):
            raise SandboxUnsupported(f"{spec.label}: {what}", provider="process")
        if spec.isolation is not None and RANK[spec.isolation] > RANK[have]:
            what = f"isolation {spec.isolation!r} was asked for and this sandbox would have {have!r}"
        elif spec.network == "none" and have == "none":
            what = "network 'none' was asked for, which plain processes cannot keep"
        if what:
            why = f" ({self.why_not})" if self.bubblewrap is None else ""
            raise SandboxUnsupported(f"{spec.label}: {what}{why}", provider="process")

    def _limits_refused(self, spec: SandboxSpec) -> str:
        """Why limits that are asked for cannot be kept; empty when they can."""
        wanted = spec.resources
        if wanted.disk_mb is not None:
            return "a limit of disk (disk_mb) cannot be kept by the process sandbox; take a provider that has one"
        names = [name for name in sorted(cgroups.CONTROLLERS) if getattr(wanted, name) is not None]
        missing = [name for name in names if name in self.cgroups.why_not]
        if not missing:
            return ""
        return (
            f"the limits asked for ({', '.join(missing)}) cannot be kept by the process sandbox here: "
            f"{_reasons(missing, self.cgroups)}; {cgroups.mend()}"
        )

    def cell_limits(self, spec: SandboxSpec, *, forked: bool) -> Limits:
        """What the processes of a spec are held to; bubblewrap's own two are not counted as the env's."""
        found = limits.of(spec.resources, self._options)
        return replace(found, beside=_BUBBLEWRAPS) if self.bubblewrap is not None and not forked else found

    def code_limits(self) -> Limits:
        """What verifiers are held to: they ask for nothing themselves."""
        return limits.of(Resources(), self._options)

    def limits(self) -> dict[str, int]:
        """Rlimits of a sandbox's processes."""
        return {
            "core": 0,
            "fsize": self._options.file_mb * 1024 * 1024,
            "nofile": self._options.open_files,
            "cpu": self._options.cpu_s,
        }

    def _command(
        self, launch: Launch, folder: Path, argv: list[str], cwd: str, context: Path | None = None
    ) -> list[str]:
        isolated = launch.isolation != "none" and self.bubblewrap is not None
        words: list[str] = []
        for word in argv:
            if word in {"python", "python3"}:
                words.append(launch.interpreter)
            elif isolated:
                words.append(word)
            else:
                words.append(_mapped(word, str(folder / "root"), launch.workdir, context))
        if not isolated or self.bubblewrap is None:
            return words
        paths = self._paths[launch.interpreter]
        return self.bubblewrap.arguments(folder, cwd=cwd, network=launch.network, readable=paths) + words

    @staticmethod
    def _environment(launch: Launch, identity: str, folder: Path) -> dict[str, str]:
        root = "" if launch.isolation != "none" else str(folder / "root")
        env = base_environment(launch.interpreter, home=root + launch.workdir, tmp=root + "/tmp")
        return {**env, **launch.env, **launch.secrets, MARK: identity}

    async def exec_message(self, box: ProcessSandbox, argv: list[str], cwd: str, env: dict[str, str]) -> dict[str, Any]:
        """An ``exec`` request.

        Raises:
            SandboxUnsupported: the sandbox was isolated with bubblewrap, which does not work for this provider.
        """
        launch = box.launch
        isolated = launch.isolation != "none"
        if isolated:
            if self.bubblewrap is None:
                raise SandboxUnsupported(
                    f"sandbox {box.id} is isolated and {self.why_not}", provider="process", sandbox_id=box.id
                )
            await self.python_paths(launch.interpreter)
        return {
            "of": box.id,
            "argv": self._command(launch, box.folder, argv, cwd),
            "env": {**self._environment(launch, box.id, box.folder), **env, MARK: box.id},
            "cwd": "/" if isolated else str(box.root) + cwd,
            "limits": launch.limits,
            "cells": list(box.cells()),
        }


def _reasons(names: list[str], here: Cgroups) -> str:
    """Why limits cannot be kept, each reason once."""
    return "; ".join(dict.fromkeys(here.why_not[name] for name in names))


def base_environment(interpreter: str, *, home: str, tmp: str) -> dict[str, str]:
    """Explicit: nothing of the server's own environment but the place of its CA certificates."""
    env = {
        "PATH": f"{os.path.dirname(interpreter)}:{_SYSTEM_PATH}",  # noqa: PTH120
        "HOME": home,
        "TMPDIR": tmp,
        "LANG": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        if name in os.environ:
            env[name] = os.environ[name]
    return env


def _mapped(word: str, root: str, workdir: str, context: Path | None) -> str:
    """An argument that names a file of the sandbox by its absolute path, as the host sees it."""
    if not word.startswith("/"):
        return word
    path = posixpath.normpath(word)
    inside = os.path.lexists(root + path)
    if context is not None and path.startswith(workdir.rstrip("/") + "/"):
        inside = inside or (context / posixpath.relpath(path, workdir)).exists()  # copied there at the start
    return root + path if inside else word
