"""GridSim earns the same wherever it is deployed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.sandboxes.conftest import Place

pytestmark = pytest.mark.timeout(400)

GRIDSIM = str(Path(__file__).resolve().parents[2] / "examples" / "gridsim")
PLAY = ("--policy", "greedy", "--groups", "3", "--samples", "2", "--json")


def rewards(place: Place, *arguments: str) -> dict[str, list[float]]:
    """Rewards of each task of a rehearsal in which nothing failed."""
    done = place.agentenv("rehearse", GRIDSIM, *PLAY, *(arguments or place.arguments))
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    result: dict[str, Any] = json.loads(done.stdout)
    assert result["summary"]["failures"] == 0, result["groups"]
    return {group["task_id"]: [sample["reward"] for sample in group["samples"]] for group in result["groups"]}


@pytest.fixture(scope="module")
def expected(places: Callable[[str], Place]) -> dict[str, list[float]]:
    found = rewards(places("process"))
    assert len(found) == 3
    assert len({reward for some in found.values() for reward in some}) > 1
    return found


def test_every_provider_gives_the_same_rewards(place: Place, expected: dict[str, list[float]]) -> None:
    assert rewards(place) == expected
    assert place.running() == []


@pytest.mark.parametrize("name", ["process", pytest.param("docker", marks=pytest.mark.docker), "e2b"])
def test_a_warm_pool_changes_no_reward(
    name: str, places: Callable[[str], Place], expected: dict[str, list[float]]
) -> None:
    place = places(name)
    assert rewards(place, *place.arguments, "--warm", "2") == expected
    assert place.running() == []


def test_the_next_of_a_chain_takes_over(places: Callable[[str], Place], expected: dict[str, list[float]]) -> None:
    """Modal's quota is used up for this App, so that E2B plays; each option reaches its own provider."""
    modal, e2b = places("modal"), places("e2b")
    both = replace(modal, variables={**modal.variables, **e2b.variables})
    made, asked = len(modal.service.state.orders), modal.service.state.creates
    chain = ["--sandbox", "modal,e2b", *modal.given(), *e2b.given(), "--sandbox-option", "modal.app=fault-quota"]
    assert rewards(both, *chain) == expected
    assert len(modal.service.state.orders) == made
    assert modal.service.state.creates > asked
    assert modal.running() == e2b.running() == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--sandbox", "process,docker", "--sandbox-option", "log_kb=8"], "process.log_kb=8"),
        (["--sandbox-option", "modl.app=x"], "modal"),
        (["--sandbox", "modal,e2b", "--sandbox-option", "modal.aap=x"], "known options: app"),
        (["--sandbox", "e2b", "--sandbox-option", "creates_per_s=often"], "creates_per_s"),
    ],
)
def test_options_that_reach_nobody_are_refused(
    arguments: list[str], words: str, places: Callable[[str], Place]
) -> None:
    done = places("process").agentenv("rehearse", GRIDSIM, *arguments)
    assert done.returncode in {1, 2}
    assert words in done.stderr
    assert "Traceback" not in done.stderr
