"""One episode as verifiers plays it: got in the task's set-up, played by a harness, ended in its finalize hook."""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING, Any, Final

from agent_env.errors import EpisodeFailed, Failure
from agent_env.rollout.arguments import read_arguments
from agent_env.rollout.calls import Call, new_call_id
from agent_env.rollout.clock import Clock
from agent_env.rollout.loop import Rollout, Settings
from agent_env.rollout.opening import Opened, Target, close_quietly, failure_of, open_episode
from agent_env.rollout.player import Player
from agent_env.rollout.result import Result
from agent_env.rollout.session import connect as connect_openenv
from agent_env.rollout.supervise import Supervisor
from agent_env.training.verifiers.adopted import Adopted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agent_env.plugin.parser import ToolCallParser
    from agent_env.plugin.tools import ToolSpec
    from agent_env.rollout.model import Model
    from agent_env.rollout.session import Connect, TurnReply

OVER: Final = "The episode is over: this call was not run."
_supervisor = Supervisor()


class Episode:
    """One episode: `open` it, then `converse` or any number of `call`, then `finish`, and `close` in any case.

    Args:
        target: the episode.
        settings: the bounds.
        connect: makes the episode's session.

    Attributes:
        result: what became of it.
        specs: the task's tools, once it is open.
    """

    def __init__(self, target: Target, settings: Settings, *, connect: Connect = connect_openenv) -> None:
        self.target = target
        self.settings = settings
        self.result = Result()
        self.specs: Sequence[ToolSpec] = ()
        self._connect = connect
        self._opened: Opened | None = None
        self._reset_s = 0.0
        self._lock = asyncio.Lock()
        self._over = False

    @property
    def over(self) -> bool:
        """Whether it is scored or failed."""
        return self._over

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
            self._fail(failure_of(error, self.target.url))
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
            self.result = Result(messages=rollout.result.messages, tool_calls=rollout.result.tool_calls)
            self._carry_over()
            raise
        self._carry_over()
        self._over = True
        return self.result

    async def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Play one tool call, ``end_turn`` included; returns what the model reads."""
        async with self._lock:
            if self._over or self._opened is None:
                return OVER
            session = self._opened.session
            names = [spec.name for spec in self.specs]
            player = Player(session, self.result, Clock(math.inf), self.settings.tool_timeout, names)
            call = Call(new_call_id(), name, read_arguments(dict(arguments)))
            try:
                ended = await player.play([call], "", self._end_turn)
                if ended is not None and ended.done:
                    self._score(ended, "end_turn")
            except EpisodeFailed as error:
                self._fail(error.failure)
                return OVER
            except Exception as error:  # noqa: BLE001  a failure is no tool's error for the model to read
                self._fail(failure_of(error, self.target.url))
                return OVER
            except asyncio.CancelledError:
                self._fail(Failure("aborted", f"the call of {name!r} was given up"))
                raise
            return str(self.result.messages[-1]["content"])

    async def finish(self, response: str, *, truncated: bool = False) -> Result:
        """End the open turn with the model's last reply, and all turns after it; again it gives the same result."""
        async with self._lock:
            if not self._over and self._opened is not None:
                self.result.truncated = truncated
                try:
                    turn = await self._end_turn(response)
                    while not turn.done:
                        turn = await self._end_turn("")
                    self._score(turn, "length" if truncated else "no_call")
                except EpisodeFailed as error:
                    self._fail(error.failure)
                except Exception as error:  # noqa: BLE001  as above
                    self._fail(failure_of(error, self.target.url))
        await self.close()
        return self.result

    async def close(self) -> None:
        """Give the episode back to the server; what is still unscored fails as aborted. Idempotent."""
        if not self._over:
            self._fail(Failure("aborted", "the episode was closed before it was scored"))
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

    async def _end_turn(self, response: str) -> TurnReply:
        assert self._opened is not None
        result, timeout = self.result, self.settings.reset_timeout
        started = time.monotonic()
        try:
            turn = await self._opened.session.end_turn(
                response, timeout=timeout, invalid_calls=result.invalid_calls, truncated=result.truncated
            )
        except TimeoutError as error:
            words = f"the turn did not end within {timeout:g} s (reset_timeout)"
            raise EpisodeFailed(Failure("verifier", words)) from error
        finally:
            result.seconds["end"] += time.monotonic() - started
        result.timings.update(turn.timings)
        if turn.failure is not None:
            raise EpisodeFailed(turn.failure)
        return turn

    def _score(self, turn: TurnReply, end_reason: str) -> None:
        if turn.reward is None or not math.isfinite(turn.reward):
            raise EpisodeFailed(Failure("no_reward", f"the episode ended with the reward {turn.reward!r}"))
        self._over = True
        self.result.reward = float(turn.reward)
        self.result.scores = dict(turn.scores)
        self.result.end_reason = end_reason

    def _fail(self, failure: Failure) -> None:
        if not self._over:
            self._over = True
            self.result.fail(failure)
