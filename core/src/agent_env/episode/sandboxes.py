"""Envs and machines in sandboxes."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from agent_env.bundle.steps.deploy import DeployEnv
from agent_env.episode.chain import ChainProvider
from agent_env.episode.fit import misfit, spare_life, too_open
from agent_env.episode.machines import machine_image
from agent_env.episode.providers import Providers
from agent_env.episode.requests import LOCAL, env_request
from agent_env.episode.sandboxed_env import SandboxedEnv
from agent_env.episode.warm import WarmPool
from agent_env.errors import Problem, QuotaExceeded, SandboxError, SandboxUnsupported
from agent_env.plugin.sandbox import HostImage, SandboxSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from agent_env.bundle import Bundle, EnvSpec, TaskTemplate
    from agent_env.episode.deployer import EnvRequest
    from agent_env.plugin.sandbox import CodeRequest, Image, Isolation, Sandbox, SandboxProvider
    from agent_env.registry import Registry

T = TypeVar("T")

log = logging.getLogger("agent_env.episode")

CREATE_S = 240.0
"""For a create, beside the time that its server has to become ready."""
STOP_PREPARE_S = 10.0
RETRY_PREPARE_S = 30.0
"""How long a failed preparation is believed before an episode tries again."""
MOST_GIVEN_UP = 8
"""How many ready envs one deploy may cost."""


class SandboxDeployer:
    """Deploys with sandbox providers, see `agent_env.episode.engine.Engine` for its arguments."""

    def __init__(
        self,
        registry: Registry,
        *,
        sandbox: str | SandboxProvider | None = None,
        options: Mapping[str, Mapping[str, str]] | None = None,
        isolation: Isolation | None = None,
        warm: int = 0,
    ) -> None:
        self._providers = Providers(registry, sandbox, options)
        self._isolation: Isolation | None = isolation
        self._progress: Callable[[str], None] | None = None
        self._prepares: dict[tuple[str | None, str], asyncio.Task[None]] = {}
        self._awaited = 0  # how many wait for all preparations, and are told of their errors
        self._foretold: set[tuple[str, str]] = set()
        self._failed_at: dict[tuple[str | None, str], float] = {}
        self._pool = WarmPool(warm, self._create)

    @property
    def isolation(self) -> Isolation:
        """What the engine's own provider gives."""
        return self._providers.make(None).capabilities.isolation

    def check(self, bundle: Bundle) -> Sequence[Problem]:
        """Tasks that ask for a provider that is not there."""
        problems: list[Problem] = []
        for name, template in bundle.templates.items():
            for step in template.steps:
                wanted = _wanted(step, template)
                message = self._providers.problem(wanted) if wanted is not None else None
                if message is not None:
                    problems.append(
                        Problem(path=template.path, message=f"sandbox_type: {message}", step=step.id, task=name)
                    )
        return problems

    async def start(self, bundle: Bundle, *, progress: Callable[[str], None] | None = None) -> None:
        """Start the engine's own provider and prepare the images of the envs that tasks deploy, in the background."""
        self._progress = progress
        self._check_isolation(await self._providers.get(None))
        for template in bundle.templates.values():
            for step in template.steps:
                env_id = getattr(step, "env_id", None)
                if step.type == "deploy_env" and isinstance(env_id, str) and not _is_seeded(env_id, template):
                    env = bundle.env(env_id)
                    preparing = self._prepare(_wanted(step, template), env)
                    if isinstance(step, DeployEnv) and _is_plain(step, template):
                        request = env_request(step, env, episode_id="warm")
                        spare = spare_life(self._providers.make(request.provider), request)
                        self._pool.keep(_kind(request), request, spare)
                        self._foretell(request, template.name, preparing)

    def _foretell(self, request: EnvRequest, task: str, preparing: asyncio.Task[None]) -> None:
        """Say once for an env what every episode will be refused, as soon as the provider has started."""
        provider = self._providers.make(request.provider)

        def look(prepared: asyncio.Task[None] | None = None) -> None:
            if prepared is not None and (prepared.cancelled() or prepared.exception() is not None):
                return
            why = misfit(provider, request, self._isolation)
            if why is not None and (request.env.name, why) not in self._foretold:
                self._foretold.add((request.env.name, why))
                words = "env %r: %s: every episode of task %r, and of those that ask for the same, will fail"
                log.warning(words, request.env.name, why, task)

        if request.provider is None:
            look()
        else:
            preparing.add_done_callback(look)

    def _check_isolation(self, provider: SandboxProvider) -> None:
        """Refuse at the start what every episode would be refused."""
        if (why := too_open(provider, self._isolation)) is not None:
            raise SandboxUnsupported(f"{why}; choose another provider or a lower level", provider=provider.name)

    async def prepared(self) -> None:
        """Wait for the images; the first that fails ends the wait."""
        tasks = list(self._prepares.values())
        self._awaited += 1
        try:
            if tasks:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            self._awaited -= 1
        ended = [task for task in tasks if task.done()]
        errors = [error for task in ended if not task.cancelled() and (error := task.exception()) is not None]
        for error in errors[1:]:
            log.warning("%s", error)
        if errors:
            raise errors[0]
        if any(task.cancelled() for task in ended):
            raise SandboxError("the engine is closed")

    async def deploy_env(self, request: EnvRequest) -> SandboxedEnv:
        """A ready env of the pool, or a fresh sandbox whose server answers and a client for it."""
        ready = await self._pool.take(_kind(request))
        if ready is not None:
            return ready
        return await self._with_room(request.provider, lambda: self._create(request))

    async def _with_room(self, provider: str | None, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Envs that only wait must not keep an episode from running when the provider's quota is used up."""
        own = self._providers.default
        for _ in range(MOST_GIVEN_UP):
            try:
                return await work()
            except QuotaExceeded:
                if not await self._pool.make_room(lambda other: (other or own) == (provider or own)):
                    raise
        return await work()

    async def _create(self, request: EnvRequest, longer: float = 0.0) -> SandboxedEnv:
        key = (request.provider, request.env.name)
        failed_at = self._failed_at.get(key)
        if failed_at is not None and time.monotonic() - failed_at > RETRY_PREPARE_S:
            self._prepares.pop(key, None)
        await asyncio.shield(self._prepare(request.provider, request.env))
        provider = await self._providers.get(request.provider)
        variables: dict[str, str] = {}
        if request.env.environment_name is not None:
            variables["ENVIRONMENT_NAME"] = request.env.environment_name
        spec = SandboxSpec(
            image=request.env.image,
            env=variables,
            resources=request.resources,
            isolation=self._isolation,
            ttl_s=request.ttl_s + longer,
            labels={"episode": request.episode_id, "env": request.env.name},
            label=request.env.name,
        )
        if request.env.startup_timeout is not None:
            spec = replace(spec, startup_timeout=request.env.startup_timeout)
        sandbox = await provider.create(spec, timeout=CREATE_S + spec.startup_timeout)
        env = SandboxedEnv(request.env.name, sandbox)
        try:
            await env.open()
        except BaseException:
            await asyncio.shield(asyncio.ensure_future(env.close()))
            raise
        return env

    def _prepare(self, provider: str | None, env: EnvSpec) -> asyncio.Task[None]:
        """The one preparation of an env's image for a provider."""
        key = (provider, env.name)
        task = self._prepares.get(key)
        if task is None:
            self._failed_at.pop(key, None)
            work = self._prepare_image(key, env)
            task = self._prepares[key] = asyncio.get_running_loop().create_task(work, name=f"prepare {env.name}")
            task.add_done_callback(_look_at)
        return task

    async def _prepare_image(self, key: tuple[str | None, str], env: EnvSpec) -> None:
        try:
            provider = await self._providers.get(key[0])
            await provider.prepare(env.image, progress=self._progress)
        except Exception as error:
            self._failed_at[key] = time.monotonic()
            if not self._awaited:
                log.warning("env %r could not be prepared: %s", env.name, error)
            raise

    async def create_sandbox(self, spec: SandboxSpec, *, provider: str | None = None) -> Sandbox:
        """A machine."""
        chosen = await self._providers.get(provider)
        image = _machine(chosen) if isinstance(spec.image, HostImage) else spec.image
        own = replace(spec, image=image, isolation=self._isolation)
        return await self._with_room(provider, lambda: chosen.create(own))

    async def run_code(self, env: EnvSpec | None, request: CodeRequest, *, provider: str | None = None) -> Any:
        """Run the code in the env's image, or in a plain one."""
        chosen = await self._providers.get(provider)
        image = env.image if env is not None else _machine(chosen)
        return await self._with_room(provider, lambda: chosen.run_code(image, request))

    async def close(self) -> None:
        """End ready envs, preparations and providers."""
        await self._pool.close()
        tasks = list(self._prepares.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=STOP_PREPARE_S)
        await self._providers.close()


def _machine(provider: SandboxProvider) -> Image:
    """What it runs as a machine; a chain says so for each of its providers."""
    return HostImage() if isinstance(provider, ChainProvider) else machine_image(provider.capabilities)


def _kind(request: EnvRequest) -> tuple[object, ...]:
    """What makes two envs interchangeable before they are used."""
    return (request.provider, request.env.name, request.resources, request.ttl_s)


def _wanted(step: object, template: TaskTemplate) -> str | None:
    """The provider that a step asks for by name; what a seed fills in is not known before the episode."""
    wanted = getattr(step, "sandbox_type", None)
    if not isinstance(wanted, str) or wanted == LOCAL or _is_seeded(wanted, template):
        return None
    return wanted


def _is_plain(step: DeployEnv, template: TaskTemplate) -> bool:
    """Whether no seed fills in any of its fields."""
    return not any(isinstance(value, str) and _is_seeded(value, template) for _, value in step)


def _is_seeded(text: str, template: TaskTemplate) -> bool:
    return any(f"<{key}>" in text for key in template.placeholders)


def _look_at(task: asyncio.Task[None]) -> None:
    """Its error goes to the episodes that wait for it; with none it must not be reported as forgotten."""
    if not task.cancelled():
        task.exception()
