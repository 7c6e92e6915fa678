"""One episode as verifiers plays it: got in the task's set-up, played by a harness, ended in its finalize hook."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agent_env.errors import EpisodeFailed, Failure
from agent_env.rollout.arguments import read_arguments
from agent_env.rollout.loop import Rollout, Settings
from agent_env.rollout.opening import Opened, Target, close_quietly, open_episode
from agent_env.rollout.session import connect as connect_openenv
from agent_env.rollout.steps import OVER, SteppedEpisode
from agent_env.rollout.supervise import Supervisor
from agent_env.training.verifiers.adopted import Adopted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agent_env.plugin.parser import ToolCallParser
    from agent_env.plugin.tools import ToolSpec
    from agent_env.rollout.model import Model
    from agent_env.rollout.result import Result
    from agent_env.rollout.session import Connect

_supervisor = Supervisor()


class Episode(SteppedEpisode):
    """One episode: `open` it, then `converse` or any number of `call`, then `finish`, and `close` in any case.

    Args:
        target: the episode.
        settings: the bounds.
        connect: makes the episode's session.

    Attributes:
        specs: the task's tools, once it is open.
    """

    def __init__(self, target: Target, settings: Settings, *, connect: Connect = connect_openenv) -> None:
        super().__init__(target, tool_timeout=settings.tool_timeout, reset_timeout=settings.reset_timeout)
        self.settings = settings
        self.specs: Sequence[ToolSpec] = ()
        self._connect = connect
        self._opened: Opened | None = None
        self._reset_s = 0.0
        self._lock = asyncio.Lock()

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The task's tools as OpenAI function schemas, ``end_turn`` included."""
        return [spec.openai() for spec in self.specs]

    async def open(self) -> None:
        """Get the episode, within ``reset_timeout``; what passes is tried again.

        Raises:
            EpisodeFailed: it cannot be got.
        """
        started = time.monotonic()
        try:
            self._opened = await open_episode(
                self.target,
                None,
                connect=self._connect,
                deadline=started + self.settings.reset_timeout,
                list_timeout=self.settings.tool_timeout,
            )
            self.specs = await self._opened.session.list_tools(timeout=self.settings.tool_timeout)
        except Exception as error:
            self.fail_by(error)
            await self.close()
            assert self.result.failure is not None
            raise EpisodeFailed(self.result.failure) from error
        finally:
            self._reset_s = time.monotonic() - started
        self._carry_over()

    async def converse(
        self, prompt: Sequence[Mapping[str, Any]], model: Model, *, parser: ToolCallParser | None = None
    ) -> Result:
        """Play the whole episode with a model, until it is scored or failed.

        Raises:
            asyncio.CancelledError: the caller was cancelled; what was played so far can still be scored by `finish`.
        """
        assert self._opened is not None
        session, turn = self._opened.session, self._opened.turn

        def adopt(url: str, token: str | None, wait: float) -> Adopted:  # noqa: ARG001 - it is open
            return Adopted(session, turn)

        rollout = Rollout(
            self.target,
            prompt,
            self.tools,
            model,
            self.settings,
            parser=parser,
            connect=adopt,
            check_tools=False,
        )
        self.result = rollout.result
        self._carry_over()
        try:
            self.result = await _supervisor.play(rollout)
        except asyncio.CancelledError:
            self.result = replace(rollout.result, failure=None)
            self._carry_over()
            raise
        self._carry_over()
        self.over = True
        return self.result

    async def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Play one tool call, ``end_turn`` included; returns what the model reads."""
        async with self._lock:
            if self.over or self._opened is None:
                return OVER
            names = [spec.name for spec in self.specs]
            return await self.play_call(self._opened.session, names, name, read_arguments(dict(arguments)))

    async def finish(self, response: str, *, truncated: bool = False) -> Result:
        """End the open turn with the model's last reply, and all turns after it; again it gives the same result."""
        async with self._lock:
            if not self.over and self._opened is not None:
                await self.play_end(self._opened.session, response, truncated=truncated)
        await self.close()
        return self.result

    async def close(self) -> None:
        """Give the episode back to the server; what is still unscored fails as aborted. Idempotent."""
        self.fail(Failure("aborted", "the episode was closed before it was scored"))
        opened, self._opened = self._opened, None
        if opened is not None:
            await close_quietly(opened.session)

    # -- inside -------------------------------------------------------------------------------------------------------

    def _carry_over(self) -> None:
        """What is known from the opening, whatever result it ends up in."""
        self.result.seconds["reset"] = self._reset_s
        if self._opened is not None:
            self.result.reset_retries = self._opened.retries
            self.result.timings = {**self._opened.turn.timings, **self.result.timings}
