"""What is forked from warm interpreters: which envs may be, and the requests for it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from agent_env.plugin.sandbox import BuildContext
from agent_env.sandboxes.process import warm
from agent_env.sandboxes.process.keepers import SOURCE
from agent_env.sandboxes.process.planning import RANK, Plan, base_environment
from agent_env.sandboxes.process.sandbox import Launch
from agent_env.sandboxes.process.warm import Unfit, Warm, WarmPool, module_of

if TYPE_CHECKING:
    import itertools
    from collections.abc import Callable
    from pathlib import Path

    from agent_env.plugin.sandbox import Isolation, SandboxSpec
    from agent_env.sandboxes.process.link import Link
    from agent_env.sandboxes.process.options import ProcessOptions
    from agent_env.sandboxes.process.planning import Planner
    from agent_env.sandboxes.process.settings import EnvSettings

_log = logging.getLogger(__name__)
_KEEPER_CODE = str(SOURCE / "agent_env" / "sandboxes" / "process")


class Forks:
    """The warm interpreters of one spawner."""

    def __init__(
        self, spawner: Link, planner: Planner, group: Path, options: ProcessOptions, counter: itertools.count[int]
    ) -> None:
        self._spawner = spawner
        self._planner = planner
        self._group = group
        self._options = options
        self._counter = counter
        self._pool = WarmPool()
        self._said: set[str] = set()

    @property
    def isolation(self) -> Isolation:
        """What a forked child has: one namespace with its siblings, or nothing."""
        return "shared" if self._planner.bubblewrap is not None else "none"

    async def zygote(
        self,
        spec: SandboxSpec,
        settings: EnvSettings,
        interpreter: str,
        progress: Callable[[str], None] | None = None,
    ) -> Warm | None:
        """The zygote for a spec; None when the env is to be spawned instead, which is said once."""
        if not (isinstance(spec.image, BuildContext) and settings.prefork and self._options.prefork):
            return None
        if spec.command not in {None, settings.command}:
            return None
        if spec.isolation is not None and RANK[spec.isolation] > RANK[self.isolation]:
            return None  # spawned, it has a namespace of its own or is refused
        network = spec.network == "open"
        image = spec.image
        try:
            module = module_of(settings.command, settings.workdir)
            return await self._pool.get(
                ("zygote", image, interpreter, network),
                lambda: self._start_zygote(image, settings, interpreter, module, network=network),
            )
        except Unfit as why:
            if str(image.path) not in self._said:
                self._said.add(str(image.path))
                text = f"{image.path.name}: asks for prefork and is spawned instead: {why}"
                _log.warning("%s", text)
                if progress is not None:
                    progress(text)
            return None

    async def _start_zygote(
        self, image: BuildContext, settings: EnvSettings, interpreter: str, module: str, *, network: bool
    ) -> Warm:
        identity, folder = self._fresh()
        app = str(folder / "root") + settings.workdir
        inside = app if self._planner.bubblewrap is None else settings.workdir
        request = await self._request(folder, interpreter, settings.workdir, network=network)
        request["copy"] = [str(image.path), app]
        request["env"].update(settings.env)
        return await warm.start(self._spawner, identity, folder, request, "zygote", interpreter, [inside, module])

    async def code_host(self, interpreter: str) -> Warm:
        """The host that forks verifiers in this Python."""

        async def start() -> Warm:
            identity, folder = self._fresh()
            request = await self._request(folder, interpreter, "/work", network=True)
            return await warm.start(self._spawner, identity, folder, request, "code", interpreter, [])

        return await self._pool.get(("code", interpreter), start)

    def _fresh(self) -> tuple[str, Path]:
        name = f"{next(self._counter):08x}"
        return f"{self._group.name}-{name}", self._group / name

    async def _request(self, folder: Path, interpreter: str, workdir: str, *, network: bool) -> dict[str, Any]:
        """A ``spawn`` request for a keeper; its argv stops before the interpreter."""
        kids = folder / "kids"
        argv: list[str] = []
        root = str(folder / "root")
        if self._planner.bubblewrap is not None:
            readable = (*await self._planner.python_paths(interpreter), _KEEPER_CODE)
            argv = self._planner.bubblewrap.arguments(
                folder, cwd=workdir, network=network, readable=readable, kids=kids
            )
            root = ""
        return {
            "argv": argv,
            "env": base_environment(interpreter, home=root + workdir, tmp=str(kids)),
            "cwd": "/",
            "folders": [workdir],
            "kids": True,
            "limits": {"core": 0, "nofile": self._options.open_files},
            "meta": {"id": f"{self._group.name}-{folder.name}", "labels": {"agentenv": "keeper"}, "keeper": True},
            "grace": 0.0,
            "log": self._options.log_kb * 1024,
        }

    def plan(self, spec: SandboxSpec, settings: EnvSettings, interpreter: str, zygote: Warm, name: str) -> Plan:
        """The ``fork`` request for a spec."""
        folder = zygote.folder / "kids" / name
        launch = Launch(
            workdir=settings.workdir,
            isolation=self.isolation,
            network=self.isolation == "none" or spec.network == "open",
            interpreter=interpreter,
            env={**settings.env, **spec.env},
            secrets=dict(spec.secrets),
            limits=self._planner.limits(),
        )
        workdir = str(folder / "root") + settings.workdir
        env = {
            **base_environment(interpreter, home=workdir, tmp=str(folder / "root" / "tmp")),
            "ENVIRONMENT_NAME": spec.label,
            **launch.env,
            **launch.secrets,
            "AGENTENV_UDS": str(folder / "sock" / "s"),
        }
        return Plan(
            {"op": "fork", "env": env, "cwd": workdir, "folders": [settings.workdir], "limits": launch.limits}, launch
        )

    def code_environment(self, interpreter: str) -> dict[str, str]:
        """Variables of code that is run; its child adds home and temp folder."""
        return base_environment(interpreter, home="/", tmp="/tmp")

    async def close(self) -> None:
        await self._pool.close()
