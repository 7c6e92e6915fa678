"""One play of one task."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from typing import TYPE_CHECKING, Any

from agent_env.episode.agent import uses_agent_sandbox
from agent_env.episode.calls import Calls
from agent_env.episode.failures import explain, internal, late
from agent_env.episode.graph import run_graph
from agent_env.episode.outcome import Outcome, Turn
from agent_env.episode.run import EpisodeRun
from agent_env.errors import EpisodeFailed, Failure, RewardError, UsageError
from agent_env.plugin.reward import EpisodeFacts
from agent_env.plugin.sandbox import ISOLATIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent_env.bundle import Task
    from agent_env.episode.services import Services
    from agent_env.episode.tools import ToolList
    from agent_env.plugin.sandbox import Isolation
    from agent_env.plugin.step import StepModel
    from agent_env.plugin.tools import ToolResult

log = logging.getLogger("agent_env.episode")


class Episode:
    """One play of one task: `start`, then tool calls, then `end_turn` for each turn, until there is an `outcome`.

    Made by `Engine.episode`. Methods are called from one event loop; tool calls may run side by side. An episode ends
    by itself when its task is played or when an env fails; `close` ends it at any time. Whatever happened, nothing of
    it keeps running.

    Attributes:
        id: names the episode in logs and labels.
        task: what is played.
        outcome: how it ended, `None` while it goes on.
    """

    __slots__ = (
        "_calls",
        "_ending",
        "_graph",
        "_invalid_calls",
        "_run",
        "_running",
        "_services",
        "_teardown",
        "_timings",
        "_truncated",
        "_turn_ending",
        "id",
        "outcome",
        "task",
    )

    def __init__(self, services: Services, task: Task, episode_id: str) -> None:
        self.id = episode_id
        self.task = task
        self.outcome: Outcome | None = None
        self._services = services
        self._run = EpisodeRun(services, task, episode_id)
        self._graph: asyncio.Task[None] | None = None
        self._teardown: asyncio.Task[None] | None = None
        self._running: dict[str, StepModel] = {}
        self._calls = Calls(self._run)
        self._invalid_calls = 0
        self._truncated = False
        self._turn_ending = False
        self._timings = {"deploy_s": 0.0, "verifier_s": 0.0}

    # -- what its player does -----------------------------------------------------------------------------------------

    async def start(self, *, timeout: float = 600.0) -> Turn:
        """Deploy fresh envs and run the task's steps up to its first prompt.

        Args:
            timeout: seconds for all of it.

        Raises:
            EpisodeFailed: an env could not be deployed, loaded or configured; nothing is left running.
            UsageError: it was started before.
        """
        if self._graph is not None:
            raise UsageError("an episode starts once: make a new one")
        if self.outcome is not None:
            raise self._failed()
        if self._services.closing is not None:
            self._fail(Failure("aborted", self._services.closing, retryable=True))
        else:
            self._run.started_at = time.monotonic()
            self._services.episodes.add(self)
            self._run.agent.has_shell = uses_agent_sandbox(self.task.steps)
            self._graph = asyncio.get_running_loop().create_task(self._play(), name=f"episode {self.id}")
        reached = await self._next("reset", timeout)
        if isinstance(reached, Turn):
            return reached
        if reached.failure is None:
            raise EpisodeFailed(Failure("server", f"task {self.task.id!r} has no prompted turn"))
        raise EpisodeFailed(reached.failure)

    @property
    def tools(self) -> ToolList:
        """The tools of the open turn, `end_turn` last; one object for all episodes whose envs list the same.

        Raises:
            UsageError: the episode has not started.
        """
        return self._run.tools

    @property
    def isolation(self) -> Isolation | None:
        """The least isolation among its running envs; `None` without one in a sandbox."""
        levels = [env.deployed.isolation for env in self._run.envs]
        return next((level for level in ISOLATIONS if level in levels), None)

    async def call_tool(self, name: str, arguments: Mapping[str, Any], *, timeout: float | None = None) -> ToolResult:
        """Call a tool of an env.

        Args:
            name: the tool.
            arguments: a JSON object.
            timeout: seconds, `None` = the env client's own deadline.

        Returns:
            What the tool answered; a result with ``is_error`` is the tool's own refusal, and the episode goes on.

        Raises:
            UnknownTool: there is no such tool; the episode goes on.
            EpisodeFailed: the env died or broke its protocol (``env``), the call took too long (``tool_timeout``),
                or the episode was closed meanwhile; the episode is over.
            UsageError: no turn is open.
        """
        self._check_open()
        try:
            return await self._calls.call(name, arguments, timeout)
        except EpisodeFailed as error:
            self._fail(error.failure)
            raise self._failed() from error.__cause__

    async def end_turn(
        self, response: str, *, timeout: float = 600.0, invalid_calls: int = 0, truncated: bool = False
    ) -> Turn | Outcome:
        """End the open turn with the agent's reply.

        Args:
            response: the reply.
            timeout: seconds up to the next turn or the outcome, verifiers included.
            invalid_calls: calls of the whole episode so far whose arguments were not a JSON object.
            truncated: the model was cut off.

        Returns:
            The next turn, or how the episode ended. A failure is an outcome too, not an exception.

        Raises:
            UsageError: the episode has not started, or another call is under way.
        """
        if self.outcome is not None:
            return self.outcome
        self._check_open()
        if self._calls.running:
            raise UsageError("a tool call is still running: wait for it before ending the turn")
        self._invalid_calls = max(self._invalid_calls, invalid_calls)
        self._truncated = self._truncated or truncated
        self._turn_ending = True
        try:
            return await self._next("end of the turn", timeout, response)
        finally:
            self._turn_ending = False

    async def close(self, reason: str = "closed") -> None:
        """End the episode and wait until nothing of it runs. Idempotent.

        It goes on when its caller is cancelled, and never raises for what fails on the way.

        Args:
            reason: for the failure ``aborted`` when the episode had no outcome yet.
        """
        self.end(reason)
        if self._teardown is not None:
            await asyncio.shield(self._teardown)

    def end(self, reason: str) -> None:
        """`close` without waiting: the engine owns the teardown and waits for it when it closes itself."""
        self._fail(Failure("aborted", f"the episode was ended: {reason}", retryable=self._services.closing is not None))

    # -- inside -------------------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self.outcome is not None:
            if self.outcome.failure is not None:
                raise EpisodeFailed(self.outcome.failure)
            raise UsageError("the episode is over")
        if self._run.turns.open is None or self._turn_ending:
            raise UsageError("no turn is open")

    def _failed(self) -> EpisodeFailed:
        failure = self.outcome.failure if self.outcome is not None else None
        return EpisodeFailed(failure or Failure("aborted", "the episode is over"))

    async def _next(self, what: str, timeout: float, response: str | None = None) -> Turn | Outcome:
        """The next turn or the outcome; whoever gives up waiting has ended the episode."""
        turns = self._run.turns
        self._run.deadline = asyncio.get_running_loop().time() + timeout
        if self.outcome is None:
            coming = turns.expect()
            if response is not None:
                turns.answer(response)
            try:
                async with asyncio.timeout(timeout):
                    turn = await coming
                if turn is not None and self.outcome is None:  # it may have ended since the turn was announced
                    self._run.deadline = math.inf
                    return turn
            except TimeoutError:
                running = next(iter(self._running.values()), None)
                self._fail(late(running, what, timeout))
            except asyncio.CancelledError:
                self._fail(Failure("aborted", f"the {what} was cancelled", retryable=True))
                await self.close()
                raise
        assert self.outcome is not None
        if self.outcome.failure is not None and response is None:
            await self.close()
        return self.outcome

    async def _play(self) -> None:
        """Run the task's steps, then reckon."""
        try:
            await run_graph(self.task.steps, self._step)
            reward = await self._services.reward.of(self.task, self._run.scores, self._facts())
            self._finish(self._outcome(reward=reward))
        except EpisodeFailed as error:
            self._fail(error.failure)
        except RewardError as error:
            self._fail(Failure("no_reward", str(error)))
        except Exception as error:  # noqa: BLE001
            self._fail(internal(error, f"task {self.task.id!r}"))

    async def _step(self, step: StepModel) -> None:
        began = time.monotonic()
        self._running[step.id] = step
        try:
            run = self._services.step_run(step.type)
            await run(step, self._run)
            if step.scores and step.id not in self._run.scores:
                raise UsageError("it recorded no score")
        except Exception as error:
            failure, fatal = await explain(error, step, self._run)
            if fatal:
                raise EpisodeFailed(failure) from error
            log.warning("episode %s goes on without step %r: %s", self.id, step.id, failure)
        finally:
            del self._running[step.id]
            if not step.prompts:
                part = "verifier_s" if step.scores else "deploy_s"
                self._timings[part] += time.monotonic() - began

    def _facts(self) -> EpisodeFacts:
        return EpisodeFacts(
            task_id=self.task.id,
            turns=self._run.turns.started,
            tool_calls=self._calls.made,
            invalid_calls=self._invalid_calls,
            truncated=self._truncated,
            seconds=time.monotonic() - self._run.started_at,
        )

    def _outcome(self, *, reward: float | None = None, failure: Failure | None = None) -> Outcome:
        timings = {**self._timings, "tools_s": self._calls.seconds}
        return Outcome(
            reward,
            dict(self._run.scores),
            failure,
            self._facts(),
            {part: round(timings[part], 6) for part in sorted(timings)},
        )

    def _fail(self, failure: Failure) -> None:
        if self.outcome is None:
            self._finish(self._outcome(failure=failure))

    def _finish(self, outcome: Outcome) -> None:
        """The one place where an episode ends. What still waits for it is told, and what runs is torn down."""
        if self.outcome is not None:
            return
        self.outcome = outcome
        if outcome.failure is not None:
            how = "ended unscored" if outcome.failure.kind == "aborted" else "failed"
            log.debug("episode %s of task %s %s: %s", self.id, self.task.id, how, outcome.failure)
        self._run.turns.finish()
        self._calls.stop(self._failed().failure)
        self._teardown = self._services.own(self._tear_down(), f"teardown {self.id}")

    async def _tear_down(self) -> None:
        graph = self._graph
        try:
            if graph is not None and not graph.done():
                if self.outcome is None or self.outcome.failure is not None:
                    graph.cancel()
                done, _ = await asyncio.wait({graph}, timeout=self._services.teardown_timeout)
                if not done:
                    log.error("episode %s: its steps %s do not end", self.id, ", ".join(self._running))
            await self._run.close()
        finally:
            self._services.episodes.discard(self)
