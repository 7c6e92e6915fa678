"""Anything a client may do, at any time and in any order: one outcome, and nothing left."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.bundle import load_bundle
from agent_env.episode import Engine, Episode, Outcome, UnknownTool
from agent_env.errors import EnvError, EpisodeFailed, SandboxUnavailable, UsageError
from agent_env.plugin.tools import ToolResult, ToolSpec
from agent_env.testing.in_process import InProcessDeployer, InProcessEnv
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agent_env.bundle import Bundle
    from agent_env.episode.deployer import EnvRequest

Build = Any
ACTIONS = ("start", "work", "unknown", "end", "end_late", "close", "cancel", "kill", "wait", "break")
EXPECTED = (EpisodeFailed, UnknownTool, UsageError)


class Fragile(InProcessEnv):
    """Takes its time, and fails when told to."""

    broken = False

    async def list_tools(self) -> Sequence[ToolSpec]:
        await self._pause()
        return [ToolSpec("work", "", {})]

    async def call_tool(self, name: str, arguments: Mapping[str, Any], *, timeout: float | None = None) -> ToolResult:
        await self._pause()
        return ToolResult()

    async def data_reset(self) -> None:
        await self._pause()

    async def _pause(self) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
            self._alive()
            if self.broken:
                raise EnvError("it broke")


class Deployer(InProcessDeployer):
    """Deploys fail now and then."""

    def __init__(self, failing: bool) -> None:
        super().__init__({"echo": Fragile, "other": Fragile}, code=self._grade)
        self.failing = failing

    async def deploy_env(self, request: EnvRequest) -> InProcessEnv:
        await asyncio.sleep(0)
        if self.failing and request.env.name == "other":
            raise SandboxUnavailable("full")
        return await super().deploy_env(request)

    async def _grade(self, name: str | None, request: object) -> list[dict[str, Any]]:
        for _ in range(3):
            await asyncio.sleep(0)
        return [{"result": True}]


@pytest.fixture
def loaded(bundle: Build, steps: Any) -> Bundle:
    bundle.env(server="# unknown").env("other", server="# unknown").verifier("").task(
        steps.deploy,
        {"type": "deploy_env", "id": "second", "env_id": "other", "depends_on": []},
        {"type": "reset_env", "env_id": "other", "fail_task_on_error": True},
        {"type": "deploy_agent", "env_ids": ["echo"]},
        steps.ask,
        {"type": "prompt_agent", "id": "again", "prompt": "And?"},
        steps.grade,
    )
    return load_bundle(bundle.path)


async def act(action: str, episode: Episode, deployer: Deployer, tasks: list[asyncio.Task[Any]]) -> None:
    match action:
        case "start":
            tasks.append(asyncio.create_task(episode.start()))
        case "work":
            tasks.append(asyncio.create_task(episode.call_tool("work", {}, timeout=60)))
        case "unknown":
            tasks.append(asyncio.create_task(episode.call_tool("wrok", {})))
        case "end":
            tasks.append(asyncio.create_task(episode.end_turn("hello")))
        case "end_late":
            tasks.append(asyncio.create_task(episode.end_turn("hello", timeout=0)))
        case "close":
            tasks.append(asyncio.create_task(episode.close()))
        case "cancel":
            for task in tasks[-1:]:
                task.cancel()
        case "kill":
            for env in deployer.deployed:
                env.gone = "ended with exit code 9"
        case "break":
            for env in deployer.deployed:
                assert isinstance(env, Fragile)
                env.broken = True
        case _:
            await asyncio.sleep(0)


async def play(loaded: Bundle, script: list[tuple[str, int]], failing: bool) -> None:
    deployer = Deployer(failing)
    tasks: list[asyncio.Task[Any]] = []
    outcomes: list[Outcome] = []
    async with Engine(loaded, deployer=deployer) as engine:
        episode = engine.episode(loaded.task("all", 0))
        for action, trips in script:
            await act(action, episode, deployer, tasks)
            for _ in range(trips):
                await asyncio.sleep(0)
            if episode.outcome is not None:
                outcomes.append(episode.outcome)
        await episode.close()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert engine.open_episodes == 0
        outcome = episode.outcome
        assert outcome is not None
        assert all(earlier is outcome for earlier in outcomes)
        assert (outcome.reward is None) is (outcome.failure is not None)
        if outcome.reward is not None:
            assert outcome.scores == {"grade": 1.0}
        for result in results:
            if isinstance(result, BaseException):
                assert isinstance(result, (*EXPECTED, asyncio.CancelledError)), result
            elif isinstance(result, Outcome):
                assert result is outcome
        if outcome.failure is not None:
            assert outcome.failure.kind != "server", outcome.failure
    event(str(outcome.failure.kind if outcome.failure is not None else "scored"))
    assert all(env.closed for env in deployer.deployed)
    assert asyncio.all_tasks() == {asyncio.current_task()}


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    script=st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 40)), max_size=12),
    failing=st.booleans(),
    patience=st.integers(0, 120),
)
def test_one_outcome_and_nothing_left(
    loaded: Bundle, script: list[tuple[str, int]], failing: bool, patience: int
) -> None:
    asyncio.run(play(loaded, [("start", patience), *script], failing))
