"""What the episodes of one engine share."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agent_env.episode.tools import ToolLists

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from agent_env.bundle import Bundle
    from agent_env.episode.deployer import Deployer
    from agent_env.episode.episode import Episode
    from agent_env.episode.reward import Reward
    from agent_env.registry import Registry

    StepRun = Callable[[Any, Any], Awaitable[None]]


log = logging.getLogger("agent_env.episode")


@dataclass(slots=True)
class Services:
    """The engine as its episodes see it.

    Attributes:
        bundle: what is served.
        registry: where step types are found.
        deployer: where envs run.
        reward: from scores to the reward.
        verifier_timeout: seconds a verifier may take.
        teardown_timeout: seconds for each part of a teardown.
        tools: shared lists of tools.
        remarks: what a user should know of the bundle and only playing it shows, each said once.
        closing: why no new episode may start, or `None`.
        episodes: those that may have something running.
    """

    bundle: Bundle
    registry: Registry
    deployer: Deployer
    reward: Reward
    verifier_timeout: float = 600.0
    teardown_timeout: float = 10.0
    tools: ToolLists = field(default_factory=ToolLists)
    closing: str | None = None
    remarks: dict[str, None] = field(default_factory=dict[str, None])
    episodes: set[Episode] = field(default_factory=set["Episode"])
    _runs: dict[str, StepRun] = field(default_factory=dict[str, "StepRun"])
    _tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    def step_run(self, step_type: str) -> StepRun:
        """The function that runs steps of this type.

        Raises:
            PluginError: there is none.
        """
        run = self._runs.get(step_type)
        if run is None:
            run = self._runs[step_type] = self.registry.load("step", step_type)
        return run

    def remark(self, text: str) -> None:
        """Say ``text`` in the log, once, and keep it."""
        if text not in self.remarks:
            self.remarks[text] = None
            log.warning("%s", text)

    def own(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run ``work`` as a task that the engine keeps and waits for when it closes."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def owned(self) -> set[asyncio.Task[None]]:
        """The tasks that still run."""
        return set(self._tasks)
