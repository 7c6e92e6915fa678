"""A pool of ready envs on other providers than processes: none is used twice, none is left, quotas are kept."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.bundle import load_bundle
from agent_env.episode import Engine, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_env.episode import Episode

    from tests.sandboxes.conftest import Place

pytestmark = pytest.mark.timeout(300)

GRIDSIM = Path(__file__).resolve().parents[2] / "examples" / "gridsim"


def engine(place: Place, warm: int) -> Engine:
    return Engine(
        load_bundle(GRIDSIM), sandbox=place.name, sandbox_options={place.name: dict(place.options)}, warm=warm
    )


def ids(episode: Episode) -> list[str]:
    """Sandboxes of the episode's envs."""
    deployed: list[Any] = [env.deployed for env in episode._run.envs]
    return [env.id for env in deployed]


async def ready(one: Engine, count: int) -> set[str]:
    """Wait for ready envs; their ids."""
    pool: Any = one._services.deployer
    async with asyncio.timeout(120):
        while True:
            found = {env.id for shelf in pool._pool._shelves.values() for _, env in shelf.ready}
            if len(found) >= count:
                return found
            await asyncio.sleep(0.05)


async def finish(episode: Episode) -> None:
    outcome = await episode.end_turn("done")
    assert isinstance(outcome, Outcome)
    assert outcome.failure is None, outcome.failure
    await episode.close()


@pytest.mark.parametrize("name", [pytest.param("docker", marks=pytest.mark.docker), "e2b", "modal"])
def test_a_ready_env_is_used_once(name: str, places: Callable[[str], Place], monkeypatch: pytest.MonkeyPatch) -> None:
    place = places(name)
    for variable, value in place.variables.items():
        monkeypatch.setenv(variable, value)

    async def run() -> None:
        async with engine(place, warm=2) as one:
            warm = await ready(one, 2)
            first = [one.episode(one.bundle.task("eval", number)) for number in range(3)]
            await asyncio.gather(*(episode.start() for episode in first))
            used = [box for episode in first for box in ids(episode)]
            assert warm <= set(used)
            again = await ready(one, 2)
            assert not again & set(used)
            await asyncio.gather(*(finish(episode) for episode in first))
            last = one.episode(one.bundle.task("eval", 0))
            await last.start()
            assert set(ids(last)) <= again
            assert len({*used, *ids(last)}) == 4
            await finish(last)

    asyncio.run(run())
    assert place.running() == []


def test_ready_envs_never_cost_an_episode_its_quota(
    small_e2b: Callable[[int], Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four sandboxes are allowed and the pool would take them all; the verifiers' sandbox needs one too."""
    place = small_e2b(4)
    for variable, value in place.variables.items():
        monkeypatch.setenv(variable, value)

    async def run() -> None:
        async with engine(place, warm=4) as one:
            await ready(one, 4)
            for _ in range(2):
                episodes = [one.episode(one.bundle.task("eval", number)) for number in range(3)]
                await asyncio.gather(*(episode.start() for episode in episodes))
                assert len(place.running()) <= 4
                await asyncio.gather(*(finish(episode) for episode in episodes))

    asyncio.run(run())
    assert place.running() == []
