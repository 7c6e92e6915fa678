"""An episode as its steps see it: the envs, the sandboxes, the conversation, the scores."""

from __future__ import annotations

import asyncio
import math
import time
import uuid
from typing import TYPE_CHECKING, Any, cast

from agent_env.episode.running import RunningEnv, Verification, close_quietly
from agent_env.episode.turns import Turns
from agent_env.errors import EnvError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from agent_env.bundle import Task
    from agent_env.episode.agent import PlayedAgent
    from agent_env.episode.deployer import DeployedEnv
    from agent_env.episode.services import Services
    from agent_env.episode.tools import ToolList
    from agent_env.episode.turns import Reply
    from agent_env.plugin.sandbox import Sandbox
    from agent_env.plugin.step import EnvHandle
    from agent_env.plugin.tools import ToolSpec


class EpisodeRun:
    """The state of one episode. It implements `agent_env.plugin.step.EpisodeContext`."""

    __slots__ = (
        "_adopted",
        "_offering",
        "_tools",
        "agent",
        "closed",
        "current",
        "deadline",
        "envs",
        "id",
        "results",
        "sandboxes",
        "scores",
        "services",
        "stale",
        "started_at",
        "task",
        "turns",
        "verifications",
    )

    def __init__(self, services: Services, task: Task, episode_id: str) -> None:
        from agent_env.episode.agent import PlayedAgent

        self.services = services
        self.task = task
        self.id = episode_id
        self.results: dict[str, Any] = {}
        self.scores: dict[str, float] = {}
        self.verifications: dict[str, Verification] = {}
        self.envs: list[RunningEnv] = []
        self.sandboxes: dict[str, Sandbox] = {}
        self.agent: PlayedAgent = PlayedAgent()
        self.turns = Turns()
        self.deadline = math.inf
        self.started_at = time.monotonic()
        self.closed = False
        self.stale = True
        self._tools: ToolList | None = None
        self._offering: dict[str, RunningEnv] = {}
        self._adopted: list[DeployedEnv | Sandbox] = []

    # -- EpisodeContext -----------------------------------------------------------------------------------------------

    @property
    def task_id(self) -> str:
        """The task's id."""
        return self.task.id

    @property
    def bundle(self) -> Path:
        """The bundle's folder."""
        return self.services.bundle.path

    async def prompt(self, prompt: str, *, system_prompt: str | None = None, prompt_id: str | None = None) -> str:
        """Open the agent's turn with this prompt and wait for its reply."""
        return await self.ask("", prompt, system_prompt=system_prompt, prompt_id=prompt_id or uuid.uuid4().hex)

    def env(self, name: str) -> EnvHandle:
        """The handle of an env, see `running_env`."""
        return self.running_env(name).deployed.handle

    def sandbox(self, name: str) -> Sandbox:
        """The sandbox that a step deployed under this name."""
        found = self.sandboxes.get(name)
        if found is None:
            known = ", ".join(map(repr, self.sandboxes)) or "none"
            raise UsageError(f"no sandbox named {name!r} is deployed; deployed: {known}")
        return found

    def record_score(
        self, step_id: str, score: float, rows: Sequence[Mapping[str, Any]] = (), *, name: str | None = None
    ) -> None:
        """Record the score of a scoring step, once."""
        if step_id not in self.task.scoring_steps:
            raise UsageError(f"step {step_id!r} is no scoring step: its type must say `scores = True`")
        if step_id in self.scores:
            raise UsageError(f"step {step_id!r} has recorded a score already")
        given = cast("object", score)
        if isinstance(given, bool) or not isinstance(given, (int, float)) or not math.isfinite(given):
            raise UsageError(f"step {step_id!r}: a score must be a finite number, got {score!r}")
        self.scores[step_id] = float(score)
        self.verifications[step_id] = Verification(step_id, name or step_id, float(score), tuple(rows))

    # -- for the built-in steps ---------------------------------------------------------------------------------------

    async def ask(self, step: str, prompt: str, *, system_prompt: str | None, prompt_id: str) -> str:
        """`prompt` for the step with this id."""
        return await self.turns.ask(
            step, prompt, system_prompt=system_prompt, prompt_id=prompt_id, ready=self.refresh_tools
        )

    def running_env(self, name: str) -> RunningEnv:
        """The env with this id, name or alias, or that the step with this id deployed.

        Raises:
            UsageError: none, or more than one.
        """
        for env in self.envs:
            if env.step == name:
                return env
        spec = self.services.bundle.env(name)
        found = [env for env in self.envs if env.spec.name == spec.name]
        if len(found) == 1:
            return found[0]
        if found:
            steps = ", ".join(repr(env.step) for env in found)
            raise UsageError(f"env {name!r} is deployed by the steps {steps}: name one of them")
        raise UsageError(f"env {name!r} is not deployed: the task needs a deploy_env of it before this step")

    def verification(self, name: str) -> Verification | None:
        """What the verifier of this id, or the step of this id, recorded."""
        for verification in self.verifications.values():
            if verification.name == name:
                return verification
        return self.verifications.get(name)

    def reply_to(self, prompt_id: str | None) -> Reply:
        """The reply to a prompt; `None` = to the last one.

        Raises:
            UsageError: no turn with this prompt has ended.
        """
        for reply in reversed(self.turns.replies):
            if prompt_id is None or prompt_id in {reply.turn.prompt_id, reply.step}:
                return reply
        known = ", ".join(repr(reply.turn.prompt_id) for reply in self.turns.replies) or "none"
        wanted = "any prompt" if prompt_id is None else f"the prompt {prompt_id!r}"
        raise UsageError(f"there is no reply to {wanted} before this step; answered prompts: {known}")

    def position(self, step_id: str) -> int:
        """The step's place in the task."""
        return next(index for index, step in enumerate(self.task.steps) if step.id == step_id)

    def adopt(self, resource: DeployedEnv | Sandbox) -> None:
        """Close this with the episode; at once when the episode is over already."""
        if self.closed:
            self.services.own(close_quietly(resource, self.services.teardown_timeout), f"close late {self.id}")
            raise UsageError("the episode is over")
        self._adopted.append(resource)

    def remaining(self, most: float) -> float:
        """Seconds that a part may take: ``most``, or what is left of the deadline of the call under way."""
        return max(0.05, min(most, self.deadline - asyncio.get_running_loop().time()))

    # -- tools --------------------------------------------------------------------------------------------------------

    @property
    def tools(self) -> ToolList:
        """The tools of the open turn."""
        if self._tools is None:
            raise UsageError("the episode has no tools yet: start it first")
        return self._tools

    async def refresh_tools(self) -> None:
        """List the tools of all envs when a step may have changed them.

        Raises:
            EnvError: an env does not answer, or names clash.
        """
        if self._tools is not None and not self.stale:
            return
        self.stale = False
        envs = sorted((env for env in self.envs if self.agent.sees(env)), key=lambda env: env.position)
        lists = await asyncio.gather(*(self._list(env) for env in envs))
        parts = [(str(index), env.title, specs) for index, (env, specs) in enumerate(zip(envs, lists, strict=True))]
        self._offering = {str(index): env for index, env in enumerate(envs)}
        if self.agent.has_shell:
            parts.append(await self.agent.shell(self))
        self._tools = self.services.tools.get(self.task.toolset, tuple(parts))

    async def _list(self, env: RunningEnv) -> tuple[ToolSpec, ...]:
        if env.agent is None:
            role = self.agent.role
            env.agent = await env.deployed.as_role(role) if role else env.deployed.handle
        try:
            specs = tuple(await env.agent.list_tools())
        except EnvError as error:
            raise env.named(error, "tools/list") from error
        return specs if env.access is None else env.access.visible(specs, self.agent.role)

    def env_of(self, owner: str) -> RunningEnv:
        """The env behind a key of `ToolList.owners`."""
        return self._offering[owner]

    # -- the end ------------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """End everything that the episode deployed. Errors are logged."""
        self.closed = True
        adopted, self._adopted = self._adopted, []
        await asyncio.gather(*(close_quietly(resource, self.services.teardown_timeout) for resource in adopted))
