"""The verifier that runs a project's tests, in containers and machines."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.bundle import load_bundle
from agent_env.episode import Engine, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.sandboxes.conftest import Place

pytestmark = pytest.mark.timeout(300)

BOX = {"id": "box", "type": "deploy_sandbox", "sandbox_name": "box", "sandbox_mode": "vm"}
ASK = {"id": "ask", "type": "prompt_agent", "prompt": "Write it."}


def unit_tests(name: str, command: str, **fields: Any) -> dict[str, Any]:
    where = {"sandbox_name": "box", "container_name": "box"}
    return {"id": name, "type": "run_container_unit_tests_verifier", **where, "command": command, **fields}


def play(place: Place, folder: Path, *steps: dict[str, Any]) -> Outcome:
    (folder / "tasks").mkdir()
    (folder / "tasks" / "task.json").write_text(json.dumps([BOX, {"id": "me", "type": "deploy_agent"}, ASK, *steps]))

    async def run() -> Outcome:
        options = {place.name: dict(place.options)}
        async with Engine(load_bundle(folder), sandbox=place.name, sandbox_options=options) as engine:
            episode = engine.episode(engine.bundle.task("all", 0))
            await episode.start()
            outcome = await episode.end_turn("done")
            assert isinstance(outcome, Outcome)
            return outcome

    outcome = asyncio.run(run())
    assert place.running() == []
    return outcome


@pytest.mark.docker
def test_absolute_and_relative_reward_files_score(tmp_path: Path, places: Callable[[str], Place]) -> None:
    absolute = unit_tests("a", "mkdir -p /logs && echo 0.25 > /logs/reward.txt", reward_path="/logs/reward.txt")
    relative = unit_tests("b", "echo 0.75 > reward.txt; exit 1", reward_path="reward.txt", setup_commands=["true"])
    both = {"id": "both", "type": "aggregate_verifiers", "verifier_ids": ["a", "b"]}
    outcome = play(places("docker"), tmp_path, absolute, relative, both)
    assert outcome.failure is None
    assert outcome.scores == {"a": 0.25, "b": 0.75, "both": 0.5}


@pytest.mark.docker
@pytest.mark.parametrize(
    ("command", "fields", "words"),
    [
        ("true", {"reward_path": "/logs/reward.txt"}, "is missing"),
        ("sleep 60", {"timeout_sec": 1}, "ran longer than 1 s"),
        ("true", {"user": "nobody"}, "user 'nobody'"),
    ],
)
def test_what_did_not_score_is_a_failure(
    command: str, fields: dict[str, Any], words: str, tmp_path: Path, places: Callable[[str], Place]
) -> None:
    outcome = play(places("docker"), tmp_path, unit_tests("tests", command, **fields))
    assert outcome.reward is None
    assert outcome.failure is not None
    assert outcome.failure.kind == "verifier"
    assert words in outcome.failure.message
