"""One rollout: an episode played by a model."""

from __future__ import annotations

import asyncio
import copy
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent_env.errors import EpisodeFailed, Failure
from agent_env.rollout.calls import calls_of_attempts, read_calls
from agent_env.rollout.clock import Clock
from agent_env.rollout.markup import find_markup
from agent_env.rollout.model import ContextFull, Model, ModelFailed, Reply
from agent_env.rollout.opening import Target, close_quietly, failure_of, open_episode
from agent_env.rollout.player import Player
from agent_env.rollout.result import Result
from agent_env.rollout.session import connect as connect_openenv
from agent_env.rollout.text import plain_text
from agent_env.rollout.tools import tool_names
from agent_env.rollout.turn import end_turn, end_turns, score

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agent_env.plugin.parser import ToolCallParser
    from agent_env.rollout.calls import Call
    from agent_env.rollout.session import Connect, Session, TurnReply


@dataclass(frozen=True, slots=True)
class Settings:
    """Bounds of a rollout; times in seconds.

    Attributes:
        max_turns: replies of the model.
        tool_timeout: one tool call.
        reset_timeout: getting an episode, retries and waiting in line included; also each end of a turn.
        model_timeout: one reply of the model.
        max_seq_len: tokens of the conversation at which it ends, `None` without a bound.
    """

    max_turns: int = 4
    tool_timeout: float = 60.0
    reset_timeout: float = 600.0
    model_timeout: float = 600.0
    max_seq_len: int | None = None

    @property
    def limit(self) -> float:
        """Wall time of a rollout without its tool calls."""
        return 2 * self.reset_timeout + self.max_turns * self.model_timeout


class Rollout:
    """Plays one episode of ``target``: `play` once, then read `result`.

    Args:
        target: the episode.
        prompt: the first messages; copied.
        tools: OpenAI function schemas that the model is offered with every request, unchanged.
        model: answers the conversation.
        settings: the bounds.
        parser: reads calls out of a reply's text when the engine parsed none.
        connect: makes the episode's session.
        check_tools: compare ``tools`` with those of the task after the reset.
    """

    def __init__(
        self,
        target: Target,
        prompt: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        model: Model,
        settings: Settings | None = None,
        *,
        parser: ToolCallParser | None = None,
        connect: Connect = connect_openenv,
        check_tools: bool = True,
    ) -> None:
        self.settings = settings or Settings()
        self.clock = Clock(self.settings.limit)
        self.result = Result(messages=[copy.deepcopy(dict(message)) for message in prompt])
        self._target = target
        self._tools = [dict(tool) for tool in tools]
        self._model = model
        self._parser = parser
        self._connect = connect
        self._check_tools = check_tools
        self._names = tool_names(self._tools)

    async def play(self) -> Result:
        """Play the episode to its end. Failures are results; only a cancellation is raised, after teardown."""
        result = self.result
        session: Session | None = None
        try:
            started = time.monotonic()
            try:
                opened = await open_episode(
                    self._target,
                    self._tools if self._check_tools else None,
                    connect=self._connect,
                    deadline=self.clock.started + self.settings.reset_timeout,
                    list_timeout=self.settings.tool_timeout,
                )
            finally:
                result.seconds["reset"] = time.monotonic() - started
            session = opened.session
            result.reset_retries = opened.retries
            result.timings.update(opened.turn.timings)
            await self._converse(session)
        except EpisodeFailed as error:
            result.fail(error.failure)
        except Exception as error:  # noqa: BLE001  a rollout never raises into its trainer
            result.fail(failure_of(error, self._target.url))
        finally:
            if session is not None:
                await close_quietly(session)
            result.seconds["total"] = self.clock.elapsed
        return result

    async def _converse(self, session: Session) -> None:
        result, settings = self.result, self.settings
        player = Player(session, result, self.clock, settings.tool_timeout, self._names)

        async def end(text: str) -> TurnReply:
            return await end_turn(session, result, text, settings.reset_timeout)

        response = ""
        end_reason = "max_turns"
        while result.turns < settings.max_turns:
            try:
                reply = await self._ask()
            except ContextFull as error:
                result.warnings.append(f"the conversation outgrew the model's context: {error}")
                result.truncated, end_reason = True, "context"
                break
            result.turns += 1
            # Exactly as it came: a changed echo is accepted in silence and then not trained.
            result.messages.append(reply.message)
            response = plain_text(reply.message.get("content"))
            if reply.finish_reason == "abort":
                raise EpisodeFailed(Failure("aborted", "the engine aborted the model's reply"))
            if reply.finish_reason == "length":
                result.truncated, end_reason = True, "length"
                break
            if settings.max_seq_len is not None and (reply.total_tokens or 0) >= settings.max_seq_len:
                result.truncated, end_reason = True, "context"
                break
            calls, response = self._calls(reply, response)
            if not calls:
                end_reason = "no_call"
                break
            ended = await player.play(calls, response, end)
            if ended is not None:
                if ended.done:
                    score(result, ended, "end_turn")
                    return
                response = ""  # nobody replied to the next turn yet
        score(result, await end_turns(session, result, response, settings.reset_timeout), end_reason)

    async def _ask(self) -> Reply:
        started = time.monotonic()
        retried = getattr(self._model, "retried", 0)
        try:
            async with asyncio.timeout(self.settings.model_timeout):
                return await self._model(self.result.messages, self._tools)
        except ModelFailed as error:
            raise EpisodeFailed(Failure(error.kind, str(error))) from error
        except TimeoutError as error:
            words = f"no reply within {self.settings.model_timeout:g} s (model_timeout)"
            raise EpisodeFailed(Failure("model_timeout", words)) from error
        except (ContextFull, EpisodeFailed):
            raise
        except Exception as error:
            raise EpisodeFailed(Failure("model", f"{type(error).__name__}: {error}")) from error
        finally:
            self.result.seconds["model"] += time.monotonic() - started
            self.result.model_retries += getattr(self._model, "retried", 0) - retried

    def _calls(self, reply: Reply, text: str) -> tuple[list[Call], str]:
        """The calls of a reply and its text beside them."""
        calls = read_calls(reply.message)
        if calls:
            return calls, text
        if self._parser is not None:
            parsed = self._parser.parse(text, self._tools)
            return calls_of_attempts(parsed.calls), plain_text(parsed.content)
        markup = find_markup(text)
        if markup is not None:
            self.result.unparsed_calls += 1
            if str(markup) not in self.result.warnings:
                self.result.warnings.append(str(markup))
        return [], text
