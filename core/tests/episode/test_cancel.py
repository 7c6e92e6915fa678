"""Cancelled at any point, an episode leaves nothing behind."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.episode import Outcome
from agent_env.errors import EpisodeFailed
from agent_env.plugin.tools import ToolResult, ToolSpec
from agent_env.testing.in_process import InProcessDeployer, InProcessEnv

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence

    from agent_env.episode.deployer import EnvRequest

Build = Any

PAUSES = 3
"""Trips through the event loop that each operation takes."""


async def pause() -> None:
    for _ in range(PAUSES):
        await asyncio.sleep(0)


class SlowEnv(InProcessEnv):
    """Every operation takes a few trips through the loop."""

    async def list_tools(self) -> Sequence[ToolSpec]:
        await pause()
        return [ToolSpec("work", "", {})]

    async def call_tool(self, name: str, arguments: Mapping[str, Any], *, timeout: float | None = None) -> ToolResult:
        await pause()
        return ToolResult()

    async def data_reset(self) -> None:
        await pause()

    async def close(self) -> None:
        await pause()
        self.closed = True


class SlowDeployer(InProcessDeployer):
    """All or nothing, as the contract says."""

    def __init__(self) -> None:
        super().__init__({"echo": SlowEnv, "other": SlowEnv}, code=self._verify)

    async def deploy_env(self, request: EnvRequest) -> InProcessEnv:
        await pause()
        return await super().deploy_env(request)

    async def _verify(self, name: str | None, request: object) -> list[dict[str, Any]]:
        await pause()
        return [{"result": True}]


@pytest.fixture
def slow(bundle: Build, steps: Any) -> Build:
    """Two envs side by side, two turns, a verifier."""
    other: dict[str, Any] = {"type": "deploy_env", "id": "second", "env_id": "other", "depends_on": []}
    reset = {"type": "reset_env", "env_id": "echo", "fail_task_on_error": True}
    return (
        bundle.env()
        .env("other")
        .verifier("def verify(url):\n    return []")
        .task(
            steps.deploy,
            other,
            reset,
            {"type": "deploy_agent", "env_ids": ["other"]},
            steps.ask,
            {"type": "prompt_agent", "id": "again", "prompt": "And?"},
            {**steps.grade, "env_id": "other"},
        )
    )


async def cancel_after(trips: int, work: Coroutine[Any, Any, object]) -> bool:
    """Cancel ``work`` after this many trips through the loop; whether it was done before."""
    task = asyncio.create_task(work)
    for _ in range(trips):
        await asyncio.sleep(0)
    done = task.done()
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.exception()
    return done


def nothing_left(deployer: InProcessDeployer) -> bool:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    return not others and all(env.closed for env in deployer.deployed)


def sweep(slow: Build, in_process: Any, act: Any) -> int:
    """Cancel ``act(episode)`` after 0, 1, 2, ... trips until it is done before; how many there were."""

    async def one(trips: int) -> bool:
        deployer = SlowDeployer()
        async with in_process(slow, deployer=deployer) as it:
            episode = it.episode()
            work = await act(episode)
            done = await cancel_after(trips, work)
            if not done:
                assert episode.outcome is not None or it.engine.open_episodes <= 1
            await episode.close()
            assert nothing_left(deployer), trips
            assert it.engine.open_episodes == 0
            return done

    for trips in range(500):
        if asyncio.run(one(trips)):
            return trips
    raise AssertionError("it never got done")


def test_start(slow: Build, in_process: Any) -> None:
    async def act(episode: Any) -> Any:
        return episode.start()

    assert sweep(slow, in_process, act) > 10


def test_call_tool(slow: Build, in_process: Any) -> None:
    async def act(episode: Any) -> Any:
        await episode.start()
        return episode.call_tool("work", {}, timeout=60)

    assert sweep(slow, in_process, act) >= PAUSES


def test_end_turn_to_the_next_turn(slow: Build, in_process: Any) -> None:
    async def act(episode: Any) -> Any:
        await episode.start()
        return episode.end_turn("1")

    assert sweep(slow, in_process, act) > 1


def test_end_turn_to_the_outcome(slow: Build, in_process: Any) -> None:
    async def act(episode: Any) -> Any:
        await episode.start()
        await episode.end_turn("1")
        return episode.end_turn("2")

    assert sweep(slow, in_process, act) > PAUSES


def test_close(slow: Build, in_process: Any) -> None:
    async def act(episode: Any) -> Any:
        await episode.start()
        return episode.close()

    assert sweep(slow, in_process, act) > 1


def test_a_cancelled_start_is_torn_down_when_it_is_raised(slow: Build, in_process: Any) -> None:
    """Without close(): whoever waits for the cancellation waits for the teardown."""

    async def one(trips: int) -> bool:
        deployer = SlowDeployer()
        async with in_process(slow, deployer=deployer) as it:
            done = await cancel_after(trips, it.episode().start())
            if not done:
                assert all(env.closed for env in deployer.deployed)
                assert it.engine.open_episodes == 0
            return done

    for trips in range(1, 500):
        if asyncio.run(one(trips)):
            return
    raise AssertionError("it never got done")


def test_a_cancelled_call_leaves_the_episode_open(slow: Build, in_process: Any) -> None:
    async def play() -> None:
        async with in_process(slow, deployer=SlowDeployer()) as it:
            episode = it.episode()
            await episode.start()
            assert not await cancel_after(2, episode.call_tool("work", {}))
            await episode.call_tool("work", {})
            await episode.end_turn("1")
            outcome = await episode.end_turn("2")
            assert isinstance(outcome, Outcome)
            assert outcome.reward == 1.0

    asyncio.run(play())


def test_closing_while_it_starts(slow: Build, in_process: Any) -> None:
    async def one(trips: int) -> bool:
        deployer = SlowDeployer()
        async with in_process(slow, deployer=deployer) as it:
            episode = it.episode()
            start = asyncio.create_task(episode.start())
            for _ in range(trips):
                await asyncio.sleep(0)
            done = start.done()
            await episode.close("no longer wanted")
            if done:
                return True
            with pytest.raises(EpisodeFailed, match=r"aborted: .*no longer wanted"):
                await start
            assert nothing_left(deployer)
            return False

    for trips in range(500):
        if asyncio.run(one(trips)):
            return
    raise AssertionError("it never got done")


def test_a_start_that_takes_too_long_is_ended(slow: Build, in_process: Any) -> None:
    class Stuck(SlowDeployer):
        async def deploy_env(self, request: EnvRequest) -> InProcessEnv:
            await asyncio.sleep(3600)
            return await super().deploy_env(request)

    async def play() -> None:
        deployer = Stuck()
        async with in_process(slow, deployer=deployer) as it:
            with pytest.raises(EpisodeFailed, match=r"deploy: step 'deploy_env' .*reset had taken 0.05 s") as error:
                await it.episode().start(timeout=0.05)
            assert error.value.failure.retryable
            assert nothing_left(deployer)

    asyncio.run(play())


def test_a_close_that_hangs_or_raises_is_given_up(
    slow: Build, in_process: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Sticky(SlowEnv):
        async def close(self) -> None:
            self.closed = True
            if len(made) % 2:
                await asyncio.sleep(3600)
            raise OSError("it does not go")

    made: list[Sticky] = []

    class Deployer(SlowDeployer):
        async def deploy_env(self, request: EnvRequest) -> InProcessEnv:
            env = Sticky()
            made.append(env)
            return env

    async def play() -> None:
        async with in_process(slow, deployer=Deployer()) as it:
            it.engine._services.teardown_timeout = 0.05
            episode = it.episode()
            await episode.start()
            await episode.close()
            assert it.engine.open_episodes == 0

    asyncio.run(play())
    assert [env.closed for env in made] == [True, True]
    assert "teardown of" in caplog.text
