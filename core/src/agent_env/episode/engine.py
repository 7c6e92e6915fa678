"""What the episodes of a bundle share, and the way to make them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from typing import TYPE_CHECKING, Any, Self

from agent_env.episode.episode import Episode
from agent_env.episode.reward import choose_reward
from agent_env.episode.services import Services

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from agent_env.bundle import Bundle, Task
    from agent_env.episode.deployer import Deployer
    from agent_env.plugin.reward import RewardCombiner
    from agent_env.plugin.sandbox import Isolation, SandboxProvider
    from agent_env.registry import Registry

log = logging.getLogger("agent_env.episode")

SHUTTING_DOWN = "the server is shutting down"


class Engine:
    """Plays the tasks of a bundle as episodes.

    Args:
        bundle: the bundle.
        registry: where plugins are found; `None` = everything that is installed.
        reward: how scores become the reward: `None` = the task's only scoring step, or its final
            ``aggregate_verifiers``; a string = a scoring step or a combiner (``weighted:grade=0.8,format=0.2``), with
            ``step:`` or ``combiner:`` before it where a name is both; a callable ``f(scores)`` or
            ``f(scores, episode)``, sync or async. A sync callable runs on the event loop: it must not block.
        sandbox: name of the sandbox provider, several names with commas (the next one takes over while one is out of
            quota or out of reach), or a provider of your own, which the engine starts and closes;
            `None` = ``process``.
        sandbox_options: options of providers as text, by provider name.
        deployer: takes the place of sandboxes altogether.
        isolation: the least isolation that envs need; less is refused.
        warm: ready envs to keep for each env that tasks deploy; a deploy takes one of them.
        verifier_timeout: seconds that a verifier may take; the time left of the turn's end bounds it too.

    Attributes:
        bundle: what is really served: without the tasks that the reward or the sandboxes do not fit; those are in
            its ``left_out``.

    Raises:
        RewardError: the reward is wrong, or fits no task.
        PluginError: no such sandbox provider or combiner.
    """

    def __init__(
        self,
        bundle: Bundle,
        *,
        registry: Registry | None = None,
        reward: str | Callable[..., Any] | RewardCombiner | None = None,
        sandbox: str | SandboxProvider | None = None,
        sandbox_options: Mapping[str, Mapping[str, str]] | None = None,
        deployer: Deployer | None = None,
        isolation: Isolation | None = None,
        warm: int = 0,
        verifier_timeout: float = 600.0,
    ) -> None:
        if registry is None:
            from agent_env.registry import default_registry

            registry = default_registry()
        if deployer is None:
            from agent_env.episode.sandboxes import SandboxDeployer

            deployer = SandboxDeployer(
                registry, sandbox=sandbox, options=sandbox_options, isolation=isolation, warm=warm
            )
        chosen, misfits = choose_reward(bundle, reward, registry)
        problems = [*misfits, *deployer.check(bundle)]
        self.bundle: Bundle = bundle.leave_out(problems) if problems else bundle
        self._services = Services(
            bundle=self.bundle,
            registry=registry,
            deployer=deployer,
            reward=chosen,
            verifier_timeout=verifier_timeout,
        )
        self._closing: asyncio.Task[None] | None = None

    async def start(self, *, progress: Callable[[str], None] | None = None) -> None:
        """Start the sandbox provider; images are prepared in the background, see `prepared`.

        Raises:
            SandboxError: the provider cannot work here.
        """
        for step_type in {step.type for template in self.bundle.templates.values() for step in template.steps}:
            self._services.step_run(step_type)  # imported now, not on the event loop during the first episode
        await self._services.deployer.start(self.bundle, progress=progress)

    async def prepared(self) -> None:
        """Wait until the image of every env is prepared.

        Raises:
            SandboxError: one could not be.
        """
        await self._services.deployer.prepared()

    @property
    def remarks(self) -> Sequence[str]:
        """What a user should know of the bundle and only playing it shows, such as a verifier that returns no rows."""
        return tuple(self._services.remarks)

    @property
    def isolation(self) -> Isolation | None:
        """How far envs are from the server, once it has started; `None` where no sandbox provider is used."""
        return self._services.deployer.isolation

    def episode(self, task: Task, *, episode_id: str | None = None) -> Episode:
        """A new episode of ``task``; nothing runs before its `Episode.start`."""
        return Episode(self._services, task, episode_id or uuid.uuid4().hex)

    @property
    def open_episodes(self) -> int:
        """Episodes that may have something running, those under teardown included."""
        return len(self._services.episodes)

    async def close(self, *, deadline: float = 10.0) -> None:
        """End all episodes, then the sandbox provider. Idempotent; goes on when its caller is cancelled.

        Args:
            deadline: seconds for the episodes; what is left after it is ended by the provider.
        """
        if self._closing is None:
            self._services.closing = SHUTTING_DOWN
            self._closing = asyncio.get_running_loop().create_task(self._close(deadline), name="close the engine")
        await asyncio.shield(self._closing)

    async def _close(self, deadline: float) -> None:
        services = self._services
        for episode in list(services.episodes):
            episode.end(SHUTTING_DOWN)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(deadline):
                while tasks := services.owned():
                    await asyncio.wait(tasks)
        if left := services.owned():
            log.error("%d episodes were not torn down within %g s", len(left), deadline)
            for task in left:
                task.cancel()
            await asyncio.wait(left, timeout=1.0)
        await services.deployer.close()

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.close()
