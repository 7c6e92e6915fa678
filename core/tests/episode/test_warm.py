"""Ready envs: each is used once, none is left, old and dead ones are replaced, episodes come before them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.episode import Engine, Outcome, warm
from agent_env.errors import EnvError, QuotaExceeded, UsageError
from agent_env.registry import default_registry

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from agent_env.plugin.sandbox import Sandbox, SandboxSpec

Build = Any


async def until(found: Callable[[], Awaitable[bool]]) -> None:
    """Wait for something that no event tells."""
    async with asyncio.timeout(20):
        while not await found():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def ended(box: Sandbox) -> bool:
    return await box.status() != "running"


@pytest.fixture
def make_provider(tmp_path: Any) -> Callable[[], Any]:
    """Real process providers that remember what they created."""
    made: Any = default_registry().load("sandbox", "process")

    def make(most: int | None = None) -> Any:
        provider = made(state_dir=tmp_path / "s")
        provider.created = []
        create = provider.create

        async def remembered(spec: SandboxSpec, *, timeout: float = 300.0) -> Sandbox:
            running = [box for box in provider.created if await box.status() == "running"]
            if most is not None and len(running) >= most:
                raise QuotaExceeded(f"{most} sandboxes run already")
            sandbox: Sandbox = await create(spec, timeout=timeout)
            provider.created.append(sandbox)
            return sandbox

        provider.create = remembered
        return provider

    return make


@pytest.fixture
def provider(make_provider: Callable[[], Any]) -> Any:
    return make_provider()


@pytest.fixture
def echo(bundle: Build, steps: Any) -> Build:
    bundle.env()
    bundle.task(steps.deploy, steps.ask, steps.reply)
    return bundle


def pool_of(engine: Engine) -> Any:
    deployer: Any = engine._services.deployer
    return deployer._pool


def shelved(engine: Engine) -> list[Any]:
    return [env for shelf in pool_of(engine)._shelves.values() for _, env in shelf.ready]


async def ready(engine: Engine, count: int) -> list[Any]:
    """Wait until ``count`` envs are ready."""

    async def found() -> bool:
        return len(shelved(engine)) >= count

    await until(found)
    return shelved(engine)


async def play(engine: Engine) -> Outcome:
    episode = engine.episode(engine.bundle.task("all", 0))
    await episode.start()
    outcome = await episode.end_turn("x")
    assert isinstance(outcome, Outcome)
    await episode.close()
    return outcome


def test_a_reset_takes_a_ready_env_and_the_pool_is_filled_again(echo: Build, provider: Any) -> None:
    async def run() -> None:
        async with Engine(echo.load(), sandbox=provider, warm=2) as engine:
            first = {env.id for env in await ready(engine, 2)}
            for _ in range(3):
                assert (await play(engine)).failure is None
                await ready(engine, 2)
            used = [box.id for box in provider.created if await box.status() != "running"]
            assert len(used) == 3
            assert first < {box.id for box in provider.created}
            assert set(used) & first
        assert [await box.status() for box in provider.created] == ["gone"] * len(provider.created)

    asyncio.run(run())


def test_many_episodes_at_once_never_share_an_env(echo: Build, provider: Any) -> None:
    async def run() -> None:
        async with Engine(echo.load(), sandbox=provider, warm=3) as engine:
            await ready(engine, 3)
            episodes = [engine.episode(engine.bundle.task("all", 0)) for _ in range(8)]
            await asyncio.gather(*(episode.start() for episode in episodes))
            for number, episode in enumerate(episodes):
                await episode.call_tool("echo", {"text": str(number)})
            ids: list[str] = [running.deployed.id for episode in episodes for running in episode._run.envs]  # type: ignore[attr-defined]
            assert len(set(ids)) == 8
            outcomes = await asyncio.gather(*(episode.end_turn("x") for episode in episodes))
            assert all(isinstance(outcome, Outcome) and outcome.failure is None for outcome in outcomes)

    asyncio.run(run())


def test_a_dead_env_is_not_handed_out(echo: Build, provider: Any) -> None:
    async def run() -> None:
        async with Engine(echo.load(), sandbox=provider, warm=1) as engine:
            (env,) = await ready(engine, 1)
            with pytest.raises(EnvError):
                await env.handle.call_tool("die", {})
            await until(lambda: ended(env.sandbox))
            assert (await play(engine)).failure is None

    asyncio.run(run())


def test_an_old_env_is_replaced(echo: Build, provider: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm, "LIFE_S", 0.3)

    async def run() -> None:
        async with Engine(echo.load(), sandbox=provider, warm=1) as engine:
            (first,) = await ready(engine, 1)
            await until(lambda: ended(first.sandbox))
            await ready(engine, 1)
            assert (await play(engine)).failure is None

    asyncio.run(run())


@pytest.mark.parametrize(("most", "life"), [(None, 900.0), (7200.0 + 100, 100.0), (7200.0 + 10, None), (60.0, None)])
def test_an_env_is_not_asked_to_live_longer_than_its_provider_lets_it(
    echo: Build, steps: Any, provider: Any, most: float | None, life: float | None, caplog: pytest.LogCaptureFixture
) -> None:
    echo.task(steps.deploy, steps.ask, steps.reply, name="again")
    provider.capabilities = replace(provider.capabilities, max_ttl_s=most)
    asked: list[float] = []
    create = provider.create

    async def remembered(spec: SandboxSpec, *, timeout: float = 300.0) -> Sandbox:
        asked.append(spec.ttl_s)
        box: Sandbox = await create(spec, timeout=timeout)
        return box

    provider.create = remembered

    async def run() -> None:
        async with Engine(echo.load(), sandbox=provider, warm=2) as engine:
            if life is not None:
                await ready(engine, 2)
            await engine.prepared()

    asyncio.run(run())
    assert asked == ([] if life is None else [7200.0 + life] * 2)
    told = [text for text in caplog.messages if "is not kept warm" in text]
    assert len(told) == (1 if life is None else 0), "once for all tasks that ask for the same"


def test_ready_envs_of_another_kind_give_way_when_the_quota_is_used_up(
    bundle: Build, steps: Any, make_provider: Any
) -> None:
    bundle.env().env("other")
    bundle.task(steps.deploy, steps.ask, steps.reply, name="one")
    bundle.task({"type": "deploy_env", "env_id": "other"}, steps.ask, steps.reply, name="two")
    provider = make_provider(2)

    async def run() -> None:
        async with Engine(bundle.load(), sandbox=provider, warm=1) as engine:
            await ready(engine, 2)
            both = [engine.episode(engine.bundle.task("all", 0)) for _ in range(2)]
            for episode in both:
                await episode.start()
            for episode in both:
                await episode.close()

    asyncio.run(run())


def test_closing_during_a_fill_leaves_nothing(echo: Build, make_provider: Any) -> None:
    async def run(pauses: int) -> None:
        provider = make_provider()
        engine = Engine(echo.load(), sandbox=provider, warm=2)
        await engine.start()
        for _ in range(pauses):
            await asyncio.sleep(0.01)
        await engine.close()
        assert all([await ended(box) for box in provider.created])
        assert len(asyncio.all_tasks()) == 1

    for pauses in (0, 1, 3, 8, 20):
        asyncio.run(run(pauses))


def test_a_number_below_zero_is_refused(echo: Build) -> None:
    with pytest.raises(UsageError, match="warm"):
        Engine(echo.load(), warm=-1)
