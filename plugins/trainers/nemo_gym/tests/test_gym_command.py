"""NeMo Gym's own command, as the docs say it: its head server, Ray, its model server and its agent over our server."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.openenv import build_app
from agent_env.openenv.run import running_server
from agent_env.plugin.trainer import RehearsalPlan, RehearsalSample, RowSettings
from agent_env.testing.policies import load_policy
from agent_env.testing.standin import StandInModel
from agent_env.training.nemo_gym.adapter import NemoGymAdapter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

ROOT = Path(__file__).parents[4]
GRIDSIM = ROOT / "examples" / "gridsim"
PAGE = (ROOT / "docs" / "training" / "nemo_gym.md").read_text("utf-8")
TASKS = 3


def replaced(text: str, changes: Mapping[str, str]) -> str:
    for old, new in changes.items():
        text = text.replace(old, new)
    return text


def write_files(folder: Path, changes: Mapping[str, str]) -> int:
    """Write the page's files as a reader would; returns how many."""
    named = re.findall(r"^`([\w./]+)`[^`]*?:\n\n```\w*\n(.*?)```$", PAGE, re.DOTALL | re.MULTILINE)
    for name, text in named:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(replaced(text, changes), "utf-8")
    return len(named)


def command(start: str, changes: Mapping[str, str]) -> list[str]:
    """The words of the page's command that begins with ``start``."""
    blocks = re.findall(r"^```sh\n(.*?)```$", PAGE, re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    (found,) = (line for line in lines if line.startswith(start))
    return shlex.split(replaced(found, changes))


@pytest.mark.timeout(300)
def test_the_documented_command_plays_the_rows(run_gym: Callable[..., Awaitable[str]], tmp_path: Path) -> None:
    reply = load_policy(GRIDSIM, "greedy")

    async def main() -> dict[str, float | None]:
        async with running_server(build_app(GRIDSIM)) as url, StandInModel(reply) as model:
            plan = RehearsalPlan(url, "train", TASKS, 1, reply, rows=RowSettings(max_turns=8))
            events = [event async for event in NemoGymAdapter().rehearse(plan)]
            changes = {"http://127.0.0.1:8000": url, "http://127.0.0.1:9000": model.url, "--num-repeats 4": ""}
            assert write_files(tmp_path, changes) == 3
            await NemoGymAdapter().write_rows(url, tmp_path / "rows", RowSettings())
            rows = tmp_path / "rows" / "train.jsonl"
            first = rows.read_text("utf-8").split("\n")[:TASKS]
            rows.write_text("".join(f"{line}\n" for line in first), "utf-8")
            words = command("gym eval run --config", changes)
            await run_gym(*words)
        return {event.task_id: event.reward for event in events if isinstance(event, RehearsalSample)}

    wanted = asyncio.run(main())
    lines = (tmp_path / "results" / "rollouts.jsonl").read_text("utf-8").splitlines()
    rollouts: list[dict[str, Any]] = [json.loads(line) for line in lines]
    assert {one["agentenv"]["task_id"]: one["reward"] for one in rollouts} == wanted
    assert (len(rollouts), len(set(wanted.values())) > 1) == (TASKS, True)
    for one in rollouts:
        assert one["agentenv_result"]["failure"] is None
        assert one["agentenv_result"]["tool_calls"] == 3
        calls = [item["name"] for item in one["response"]["output"] if item["type"] == "function_call"]
        assert calls[:4] == ["read_day", "check_schedule", "submit_schedule", "end_turn"]
        assert set(calls[4:]) <= {"end_turn"}  # the agent asks on until a reply has no call
    (metrics,) = json.loads((tmp_path / "results" / "rollouts_aggregate_metrics.json").read_text("utf-8"))
    rewards = [reward for reward in wanted.values() if reward is not None]
    assert metrics["key_metrics"]["mean/reward"] == pytest.approx(statistics.fmean(rewards))
