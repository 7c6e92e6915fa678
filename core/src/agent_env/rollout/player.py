"""Plays the calls of one reply on the episode, in their order, and writes the answers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from agent_env.errors import EpisodeFailed, Failure
from agent_env.rollout.text import plain_text, result_text
from agent_env.rollout.tools import END_TURN

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from typing import Any

    from agent_env.rollout.calls import Call
    from agent_env.rollout.clock import Clock
    from agent_env.rollout.result import Result
    from agent_env.rollout.session import Session, ToolReply, TurnReply

OVER = "The turn is over: this call was not run."


class Player:
    """Plays calls; what it did is counted in ``result`` and appended to its messages."""

    def __init__(
        self, session: Session, result: Result, clock: Clock, tool_timeout: float, names: Sequence[str]
    ) -> None:
        self._session = session
        self._result = result
        self._clock = clock
        self._timeout = tool_timeout
        self._names = names

    async def play(
        self, calls: Sequence[Call], content: str, end_turn: Callable[[str], Awaitable[TurnReply]]
    ) -> TurnReply | None:
        """Play ``calls``; returns what the ``end_turn`` among them was answered, `None` when there was none.

        Args:
            calls: the calls of one reply.
            content: the reply's text, the response of an ``end_turn`` that names none.
            end_turn: ends the open turn with a response.

        Raises:
            EpisodeFailed: the env failed.
        """
        ended: TurnReply | None = None
        for call in calls:
            if ended is not None:
                self._answer(call, OVER)
            elif call.name not in self._names and not call.broken:
                self._result.unknown_calls += 1
                known = ", ".join(self._names) or "none"
                self._answer(call, f"There is no tool named {call.name!r}. The tools are: {known}.")
            elif call.arguments.value is None:
                self._result.invalid_calls += 1
                self._answer(call, call.arguments.problem)
            elif call.name == END_TURN:
                ended = await end_turn(_response(call.arguments.value, content))
                self._answer(call, "The episode is over." if ended.done else _next_prompt(ended))
            else:
                self._answer(call, await self._run(call.name, call.arguments.value))
        return ended

    async def _run(self, name: str, arguments: dict[str, Any]) -> str:
        self._clock.start_tool()
        try:
            reply = await self._session.call_tool(name, arguments, timeout=self._timeout)
        except TimeoutError as error:
            words = f"the tool {name!r} did not answer within {self._timeout:g} s (tool_timeout)"
            raise EpisodeFailed(Failure("tool_timeout", words)) from error
        finally:
            self._result.seconds["tools"] += self._clock.stop_tool()
        if reply.failure is not None:
            self._result.timings.update(reply.timings)
            raise EpisodeFailed(reply.failure)
        if reply.error_type == "tool_not_found":
            self._result.unknown_calls += 1
        else:
            self._result.tool_calls += 1
        return _reply_text(name, reply)

    def _answer(self, call: Call, text: str) -> None:
        self._result.messages.append({"role": "tool", "tool_call_id": call.id, "content": text})


def _reply_text(name: str, reply: ToolReply) -> str:
    if reply.result is not None and reply.error_type is None:
        return result_text(reply.result)
    return f"Error: {reply.message or reply.error_type or f'the tool {name!r} gave no result'}"


def _response(arguments: dict[str, Any], content: str) -> str:
    response = arguments.get("response")
    if response is None:
        return content
    return plain_text(response) if isinstance(response, str) else json.dumps(response, ensure_ascii=False)


def _next_prompt(turn: TurnReply) -> str:
    parts = [part for part in (turn.system_prompt, turn.prompt) if part]
    return "\n\n".join(parts) or "The next turn begins."
