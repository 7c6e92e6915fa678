"""The main job as a newcomer starts it: `agentenv rehearse` on the examples, as a process."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
GRIDSIM = ROOT / "examples" / "gridsim"
AGENTENV = Path(sys.executable).parent / "agentenv"


def rehearse(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [AGENTENV, "rehearse", *arguments],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={**os.environ, "COLUMNS": "120"},
    )


def played(*arguments: str | Path, status: int = 0) -> dict[str, Any]:
    done = rehearse(*arguments, "--json")
    assert done.returncode == status, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("session", ["v1", "v2"])
@pytest.mark.parametrize(("policy", "reward"), [("idle", 0.2), ("optimal", 1.0)])
def test_policies_earn_exactly_what_they_should(session: str, policy: str, reward: float) -> None:
    # Every reward of such a run is the same, which is worth a warning.
    found = played(GRIDSIM, "--policy", policy, "--groups", "2", "--samples", "2", "--session", session, status=1)
    samples = [sample for group in found["groups"] for sample in group["samples"]]
    assert [sample["reward"] for sample in samples] == [reward] * 4
    assert [sample["scores"] for sample in samples] == [{"grade": reward}] * 4
    assert all(sample["failure"] is None and sample["trained_tokens"] > 0 for sample in samples)
    assert [group["kept"] for group in found["groups"]] == [True, True]
    (warning,) = found["warnings"]
    assert "a trainer learns nothing from a constant" in warning


def test_greedy_is_all_well_and_the_summary_adds_up() -> None:
    found = played(GRIDSIM, "--policy", "greedy", "--groups", "3", "--samples", "2")
    assert (found["trainer"], found["bundle"], found["split"]) == ("miles", "gridsim", "eval")
    summary = found["summary"]
    assert (summary["episodes"], summary["failures"], summary["kept_groups"]) == (6, 0, 3)
    rewards = [sample["reward"] for group in found["groups"] for sample in group["samples"]]
    assert summary["mean_reward"] == pytest.approx(sum(rewards) / 6)
    assert min(summary["deploy_s"], summary["tools_s"], summary["verifier_s"]) > 0
    assert found["warnings"] == []


def test_the_clumsy_policy_makes_model_mistakes_and_no_failures() -> None:
    found = played(GRIDSIM, "--policy", "clumsy", "--groups", "2", "--samples", "3")
    samples = [sample for group in found["groups"] for sample in group["samples"]]
    assert all(sample["failure"] is None for sample in samples)
    assert all(sample["invalid_calls"] > 0 for sample in samples)


def test_the_table_for_people() -> None:
    done = rehearse(GRIDSIM, "--policy", "greedy", "--groups", "2", "--samples", "2")
    assert done.returncode == 0, done.stderr
    assert "4 episodes, 0 failures, 2 of 2 groups kept, mean reward" in done.stdout
    assert "ms in deploy" in done.stdout
    assert "\x1b" not in done.stdout


def test_a_broken_env_is_a_failure_and_said_in_words(tmp_path: Path) -> None:
    bundle = tmp_path / "gridsim"
    shutil.copytree(GRIDSIM, bundle)
    verifier = bundle / "artifacts" / "grade" / "verify.py"
    verifier.write_text("async def verify(mcp_url):\n    raise RuntimeError('no grade today')\n")
    found = played(bundle, "--policy", "greedy", "--groups", "1", "--samples", "2", status=1)
    (group,) = found["groups"]
    assert not group["kept"]
    for sample in group["samples"]:
        assert sample["reward"] is None
        assert sample["failure"]["kind"] == "verifier"
        assert "no grade today" in sample["failure"]["message"]
    assert found["warnings"][0].startswith("2 of 2 episodes failed (2x verifier)")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "nowhere"),
        ([str(GRIDSIM), "--policy", "wise"], "no policy 'wise'"),
        ([str(GRIDSIM), "--split", "test"], "no split 'test'"),
        ([str(GRIDSIM), "--trainer", "mils"], "unknown trainer 'mils'"),
        ([str(GRIDSIM), "--session", "v3"], "v3"),
        ([str(GRIDSIM), "--groups", "0"], "--groups"),
        ([str(GRIDSIM), "--reward", "gradee"], "gradee"),
        ([str(GRIDSIM), "--sandbox", "dokcer"], "dokcer"),
        ([str(GRIDSIM), "--sandbox-option", "x"], "KEY=VALUE"),
    ],
)
def test_wrong_usage_is_one_clear_message(arguments: list[str], words: str) -> None:
    done = rehearse(*arguments)
    assert done.returncode in {1, 2}
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_policy_that_returns_nothing_ends_the_rehearsal(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def lazy(messages, tools):\n    pass\n")
    done = rehearse(GRIDSIM, "--policy", f"{tmp_path / 'mine.py'}:lazy", "--groups", "2", "--samples", "2")
    assert done.returncode == 2
    assert "lazy' returned None, which is no assistant message" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_verifier_without_rows_is_a_warning_and_a_small_split_a_note(tmp_path: Path) -> None:
    bundle = tmp_path / "gridsim"
    shutil.copytree(GRIDSIM, bundle)
    (bundle / "artifacts" / "grade" / "verify.py").write_text("def verify(url):\n    return []\n")
    (bundle / "evals" / "eval.toml").write_text('tasks = ["day/eval-000"]\n')
    found = played(bundle, "--policy", "greedy", "--groups", "3", "--samples", "2", status=1)
    assert found["summary"]["mean_reward"] == 0
    assert any("step 'grade' of task 'day': the verifier returned no rows" in text for text in found["warnings"])
    assert any("3 groups were asked for; the split 'eval' holds 1 task" in text for text in found["notes"])


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_rehearsal_shows_what_was_played(tmp_path: Path, number: signal.Signals, status: int) -> None:
    policies = "import time\nfrom pathlib import Path\n\ndef slow(messages, tools):\n"
    policies += "    mark = Path(__file__).with_name('mark')\n    if mark.exists():\n        time.sleep(0.5)\n"
    policies += "    mark.touch()\n    return {'content': 'no'}\n"
    (tmp_path / "mine.py").write_text(policies)
    command = [str(AGENTENV), "rehearse", str(GRIDSIM), "--policy", f"{tmp_path / 'mine.py'}:slow", "--samples", "1"]
    with subprocess.Popen(
        [*command, "--groups", "40"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        for line in running.stdout:
            if "1 sample, mean reward" in line:
                break
        running.send_signal(number)
        rest, errors = running.communicate(timeout=60)
    assert running.returncode == status
    assert "interrupted; what was played until then:" in rest
    assert "mean reward" in rest.partition("interrupted")[2]
    assert "Traceback" not in errors
