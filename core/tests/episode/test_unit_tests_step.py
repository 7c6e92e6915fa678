"""The step that scores by the tests of a project, in real process sandboxes."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.bundle import load_bundle
from agent_env.episode import Engine, Outcome
from agent_env.errors import BundleError

if TYPE_CHECKING:
    from pathlib import Path

Build = Any

BOX = {"type": "deploy_sandbox", "sandbox_name": "box", "sandbox_mode": "vm"}
needs_bwrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap")


def unit_tests(command: str, **fields: Any) -> dict[str, Any]:
    return {
        "type": "run_container_unit_tests_verifier",
        "id": "tests",
        "sandbox_name": "box",
        "container_name": "main",
        "command": command,
        **fields,
    }


def play(bundle: Build, state: Path, *steps: dict[str, Any], isolation: str = "none") -> Outcome:
    """Play the task of these steps between which the agent says nothing; nothing may be left."""
    bundle.task(BOX, {"type": "prompt_agent", "prompt": "Write it."}, *steps)

    async def run() -> Outcome:
        options = {"process": {"state_dir": str(state), "isolation": isolation}}
        async with Engine(bundle.load(), sandbox_options=options) as engine:
            episode = engine.episode(engine.bundle.task("all", 0))
            await episode.start()
            outcome = await episode.end_turn("done")
            assert isinstance(outcome, Outcome)
            return outcome

    outcome = asyncio.run(run())
    assert list(state.rglob("root")) == []
    return outcome


@pytest.mark.parametrize(("command", "score"), [("true", 1.0), ("exit 1", 0.0), ("echo no >&2; exit 139", 0.0)])
def test_without_a_reward_file_the_exit_code_scores(bundle: Build, tmp_path: Path, command: str, score: float) -> None:
    outcome = play(bundle, tmp_path / "s", unit_tests(command))
    assert (outcome.failure, outcome.reward, outcome.scores) == (None, score, {"tests": score})


@pytest.mark.parametrize(
    ("text", "score"), [("0.25", 0.25), (" 1\n", 1.0), ("7", 1.0), ("-3", 0.0), ("1e-1", 0.1), ("0", 0.0)]
)
def test_a_reward_file_scores_whatever_the_exit_code(bundle: Build, tmp_path: Path, text: str, score: float) -> None:
    step = unit_tests(f"mkdir -p logs; printf %s '{text}' > logs/reward.txt; exit 1", reward_path="logs/reward.txt")
    outcome = play(bundle, tmp_path / "s", step)
    assert outcome.failure is None
    assert outcome.scores["tests"] == pytest.approx(score)


@pytest.mark.parametrize(
    ("command", "fields", "words"),
    [
        ("true", {"reward_path": "r"}, "is missing"),
        ("mkdir r", {"reward_path": "r"}, "cannot be read"),
        ("echo good > r", {"reward_path": "r"}, "no finite number"),
        (": > r", {"reward_path": "r"}, "no finite number"),
        ("echo nan > r", {"reward_path": "r"}, "no finite number"),
        ("echo inf > r", {"reward_path": "r"}, "no finite number"),
        ("head -c 9000 /dev/zero > r", {"reward_path": "r"}, "cannot be read"),
        # The file of the setup, as one that the model wrote, is no score.
        ("true", {"reward_path": "r", "setup_commands": ["echo 1 > r"]}, "is missing"),
        ("sleep 3600", {"timeout_sec": 0.5}, "ran longer than 0.5 s"),
        ("exit 124", {}, "exit code 124"),
        ("kill -9 $$", {}, "exit code 137"),
        ("echo 1 > r; exit 137", {"reward_path": "r"}, "exit code 137"),
        ("no-such-program", {}, "could not be run"),
        ("true", {"setup_commands": ["true", "echo no disk >&2; exit 3"]}, "no disk"),
        ("true", {"user": "nobody-here"}, "user 'nobody-here'"),
        ("true", {"reward_path": "/logs/reward.txt"}, "bubblewrap"),
    ],
)
def test_what_did_not_run_to_a_score_is_a_failure(
    bundle: Build, tmp_path: Path, command: str, fields: dict[str, Any], words: str
) -> None:
    outcome = play(bundle, tmp_path / "s", unit_tests(command, **fields))
    assert outcome.reward is None
    assert outcome.failure is not None
    assert outcome.failure.kind == "verifier"
    assert words in outcome.failure.message
    assert "step 'tests'" in outcome.failure.message


def test_setup_and_variables_reach_the_tests(bundle: Build, tmp_path: Path) -> None:
    step = unit_tests(
        'test "$LEVEL" = 2 && test "$(cat made)" = 2', setup_commands=['echo "$LEVEL" > made'], env_vars={"LEVEL": "2"}
    )
    assert play(bundle, tmp_path / "s", step).scores == {"tests": 1.0}


def test_its_row_can_be_joined_with_others(bundle: Build, tmp_path: Path) -> None:
    first = unit_tests("exit 1", verifier_id="unit")
    second = {**unit_tests("true"), "id": "more"}
    both = {"type": "aggregate_verifiers", "id": "all", "verifier_ids": ["unit", "more"]}
    outcome = play(bundle, tmp_path / "s", first, second, both)
    assert (outcome.failure, outcome.reward) == (None, 0.5)


@needs_bwrap
def test_absolute_paths_are_the_sandboxes_own(bundle: Build, tmp_path: Path) -> None:
    command = "mkdir -p /agentenv-test-logs && echo 0.5 > /agentenv-test-logs/reward.txt"
    step = unit_tests(command, reward_path="/agentenv-test-logs/reward.txt")
    outcome = play(bundle, tmp_path / "s", step, isolation="namespace")
    assert (outcome.failure, outcome.scores) == (None, {"tests": 0.5})


def test_a_sandbox_that_no_step_deploys_is_refused(bundle: Build) -> None:
    bundle.task(BOX, {"type": "prompt_agent", "prompt": "x"}, {**unit_tests("true"), "sandbox_name": "bx"})
    with pytest.raises(BundleError, match=r"step 'tests': field 'sandbox_name': .*did you mean 'box'"):
        load_bundle(bundle.path)
