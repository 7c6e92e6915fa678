"""The real Miles code with our functions in it: session server v1 and v2, generate, reward hook, dynamic filter.

It runs when ``MILES_SRC`` names a checkout of Miles; ``MILES_PYTHON`` names a Python that can import it (sglang,
transformers, torch for CPU), by default the one that runs the tests.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from agent_env.plugin.trainer import RowSettings
from agent_env.training.miles.adapter import MilesAdapter

ROOT = Path(__file__).resolve().parents[3]
SOURCE = os.environ.get("MILES_SRC")
PYTHON = os.environ.get("MILES_PYTHON", sys.executable)
# An early end of the process must not be taken for a test that hangs: the imports of SGLang take their time.
TIMEOUT = 400

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(TIMEOUT),
    pytest.mark.skipif(not SOURCE, reason="MILES_SRC names no checkout of Miles"),
]

IDLE = json.dumps({"plan": [0] * 24})
LOOK = {"content": "\n\nLet me see. ", "tool_calls": [{"name": "read_day", "arguments": "{}"}]}
SUBMIT = {
    "content": "",
    "reasoning_content": "Idling is safe \u2014 na\u00efve.",
    "tool_calls": [{"name": "submit_schedule", "arguments": IDLE}],
}
DONE = {"content": "Submitted.\n"}


async def play(folder: Path, changes: dict[str, Any], **job: Any) -> dict[str, Any]:
    """Serve GridSim, write its rows, play a group of the first one in the Python of Miles."""
    from agent_env.openenv import build_app
    from agent_env.openenv.run import running_server

    async with running_server(build_app(str(ROOT / "examples" / "gridsim"))) as url:
        settings = RowSettings(reset_timeout=120, tool_timeout=30, model_timeout=60)
        files = await MilesAdapter().write_rows(url, folder, settings)
        path = next(file for file in files if file.name == "eval.jsonl")
        with path.open() as lines:
            row = json.loads(lines.readline())
        row["metadata"].update(changes.get("metadata", {}))
        row["metadata"]["agentenv"].update(changes.get("agentenv", {}))
        paths = [SOURCE or "", str(ROOT / "core" / "src"), str(ROOT / "plugins" / "trainers" / "miles" / "src")]
        process = await asyncio.create_subprocess_exec(
            PYTHON,
            str(Path(__file__).with_name("driver.py")),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )
        out, err = await process.communicate(json.dumps({"row": row, "samples": 2, **job}).encode())
    assert process.returncode == 0, err.decode()[-4000:]
    return dict(json.loads(out.decode().splitlines()[-1]))


@pytest.mark.parametrize("session", ["v1", "v2"])
def test_every_token_of_the_model_is_trained(tmp_path: Path, session: str) -> None:
    result = asyncio.run(play(tmp_path, {}, session=session, replies=[LOOK, SUBMIT, DONE]))
    assert result["chats"] == 6
    samples = [sample for got in result["group"] for sample in got]
    assert len(samples) == 2  # one for each trajectory, in v2 too
    assert sum(sample["trained"] for sample in samples) == result["written"]
    for sample in samples:
        assert (sample["status"], sample["reward"]) == ("completed", 0.2)
        assert sample["metadata"]["agentenv_scores"] == {"grade": 0.2}
        assert sample["metadata"]["agentenv_tool_calls"] == 2
        assert sample["metadata"].get("tito_session_mismatch", []) == []
        assert sample["non_generation_time"] == sample["metadata"]["agent_metrics"]["total_tool_time"] > 0
    assert result["verdicts"] == {
        "keep_scored_groups": {"keep": True, "reason": None},
        "keep_scored_groups_counted": {"keep": True, "reason": None},
        "keep_trainable_groups": {"keep": False, "reason": None},
    }


@pytest.mark.parametrize("session", ["v1", "v2"])
@pytest.mark.parametrize(
    ("finish", "status"), [("length", "truncated"), ("context", "completed"), ("502", "completed")]
)
def test_cut_replies_full_contexts_and_errors_that_pass(tmp_path: Path, session: str, finish: str, status: str) -> None:
    job = {"session": session, "replies": [LOOK, SUBMIT, DONE], "finishes": {"2": finish}}
    result = asyncio.run(play(tmp_path, {}, **job))
    samples = [sample for got in result["group"] for sample in got]
    assert len(samples) == 2
    assert sum(sample["trained"] for sample in samples) == result["written"]
    for sample in samples:
        assert (sample["status"], sample["reward"]) == (status, 0.2)
        assert sample["metadata"]["agentenv_truncated"] is (finish != "502")
    assert result["verdicts"]["keep_scored_groups"]["keep"] is True


@pytest.mark.parametrize("session", ["v1", "v2"])
@pytest.mark.parametrize(
    ("changes", "finishes", "reason", "chats"),
    [
        ({"agentenv": {"tool_timeout": 0.00001}}, {}, "failed_tool_timeout", 2),
        ({}, {"1": "abort"}, "failed_aborted", 4),
        ({"metadata": {"index": 100_000}}, {}, "aborted", 0),
    ],
)
def test_failed_rollouts_are_dropped(
    tmp_path: Path, session: str, changes: dict[str, Any], finishes: dict[str, str], reason: str, chats: int
) -> None:
    job = {"session": session, "replies": [LOOK, SUBMIT, DONE], "finishes": finishes}
    result = asyncio.run(play(tmp_path, changes, **job))
    assert result["chats"] == chats
    assert result["verdicts"]["keep_scored_groups_counted"] == {"keep": False, "reason": reason}
    assert result["verdicts"]["keep_scored_groups"]["keep"] is False
    assert result["verdicts"]["keep_trainable_groups"]["keep"] is False


@pytest.mark.parametrize("session", ["v1", "v2"])
def test_the_abort_hook_ends_rollouts(tmp_path: Path, session: str) -> None:
    job = {"session": session, "replies": [LOOK, SUBMIT, DONE], "finishes": {"1": "hang"}, "hanging_chats": 4}
    result = asyncio.run(play(tmp_path, {}, **job))
    for sample in [sample for got in result["group"] for sample in got]:
        assert sample["metadata"]["agentenv_failure"].startswith("aborted: ")
    assert result["verdicts"]["keep_scored_groups_counted"] == {"keep": False, "reason": "failed_aborted"}
