"""Episodes without a server: a fake of the OpenEnv client's session, to test rollouts and trainer adapters with."""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agent_env.errors import Failure, ServerError
from agent_env.plugin.tools import ToolResult, ToolSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

END_TURN = ToolSpec(
    "end_turn",
    "End your turn.",
    {"type": "object", "properties": {"response": {"type": "string"}}, "required": ["response"]},
)


@dataclass(frozen=True, slots=True)
class FakeTurn:
    """As `agent_env.openenv.client.TurnReply`."""

    done: bool
    prompt: str | None = None
    system_prompt: str | None = None
    task: dict[str, Any] = field(default_factory=dict[str, Any])
    reward: float | None = None
    scores: dict[str, float] = field(default_factory=dict[str, float])
    failure: Failure | None = None
    timings: dict[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True)
class FakeReply:
    """As `agent_env.openenv.client.ToolReply`."""

    result: ToolResult | None = None
    error_type: str | None = None
    message: str | None = None
    failure: Failure | None = None
    timings: dict[str, float] = field(default_factory=dict[str, float])


class FakeEpisodes:
    """Makes fake sessions: pass its `connect` where a rollout takes one.

    Args:
        tools: functions by tool name, called with the call's arguments; they return a text, a `ToolResult` or a
            `FakeReply`, may be async and may raise what a session raises.
        prompts: a prompt for each turn.
        reward: the reward, or a function of the list of turn responses.
        resets: what the resets do, one after the other; an exception is raised, a failure ends the episode, `None`
            and everything beyond the list succeeds.
        end: raised or answered instead of the reward at the end.
    """

    def __init__(
        self,
        tools: Mapping[str, Callable[..., Any]] | None = None,
        *,
        prompts: Sequence[str] = ("Go.",),
        reward: float | Callable[[list[str]], Any] | None = 1.0,
        resets: Sequence[Failure | Exception | None] = (),
        end: Failure | Exception | None = None,
    ) -> None:
        self.tools = dict(tools or {})
        self.prompts = tuple(prompts)
        self.reward = reward
        self.resets = list(resets)
        self.end = end
        self.sessions: list[FakeSession] = []

    @property
    def schemas(self) -> list[dict[str, Any]]:
        """The tools as rows carry them."""
        return [spec.openai() for spec in self.specs()]

    @property
    def open_sessions(self) -> int:
        return sum(session.is_open for session in self.sessions)

    def specs(self) -> list[ToolSpec]:
        return [*(ToolSpec(name, "", {"type": "object", "properties": {}}) for name in self.tools), END_TURN]

    def connect(self, url: str, token: str | None, wait: float) -> FakeSession:
        session = FakeSession(self, url, token, wait)
        self.sessions.append(session)
        return session


class FakeSession:
    """One session; what was done to it is kept in its attributes."""

    def __init__(self, episodes: FakeEpisodes, url: str, token: str | None, wait: float) -> None:
        self._episodes = episodes
        self.url, self.token, self.wait = url, token, wait
        self.is_open = False
        self.task: tuple[str, int, int | None] | None = None
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.responses: list[str] = []
        self.ends: list[dict[str, Any]] = []

    async def open(self) -> None:
        self.is_open = True

    async def close(self) -> None:
        await asyncio.sleep(0)
        self.is_open = False

    async def reset(
        self, *, split: str, index: int, seed: int | None = None, episode_id: str | None = None, timeout: float = 600.0
    ) -> FakeTurn:
        del episode_id, timeout
        self._check()
        self.task = (split, index, seed)
        outcome = self._episodes.resets.pop(0) if self._episodes.resets else None
        if isinstance(outcome, Exception):
            raise outcome
        if isinstance(outcome, Failure):
            return FakeTurn(done=True, failure=outcome)
        return FakeTurn(done=False, prompt=self._episodes.prompts[0], timings={"deploy_s": 0.25})

    async def list_tools(self, *, timeout: float = 60.0) -> list[ToolSpec]:
        del timeout
        self._check()
        return self._episodes.specs()

    async def call_tool(self, name: str, arguments: Mapping[str, Any], *, timeout: float = 60.0) -> FakeReply:
        self._check()
        self.calls.append((name, dict(arguments)))
        async with asyncio.timeout(timeout):
            value = self._episodes.tools[name](**arguments)
            if inspect.isawaitable(value):
                value = await value
        if isinstance(value, FakeReply):
            return value
        if isinstance(value, ToolResult):
            return FakeReply(value)
        return FakeReply(ToolResult([{"type": "text", "text": str(value)}]))

    async def end_turn(
        self, response: str, *, timeout: float = 600.0, invalid_calls: int = 0, truncated: bool = False
    ) -> FakeTurn:
        del timeout
        self._check()
        self.responses.append(response)
        self.ends.append({"invalid_calls": invalid_calls, "truncated": truncated})
        if len(self.responses) < len(self._episodes.prompts):
            return FakeTurn(done=False, prompt=self._episodes.prompts[len(self.responses)])
        if isinstance(self._episodes.end, Exception):
            raise self._episodes.end
        if self._episodes.end is not None:
            return FakeTurn(done=True, failure=self._episodes.end)
        reward = self._episodes.reward
        value = reward(self.responses) if callable(reward) else reward
        scores: dict[str, float] = {} if value is None else {"grade": value}
        return FakeTurn(done=True, reward=value, scores=scores, timings={"verifier_s": 0.5})

    def _check(self) -> None:
        if not self.is_open:
            raise ServerError("the session is not open")
