"""The rewards of GridSim through verl's own loop are those of its rehearsal."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from agent_env.openenv import build_app
from agent_env.openenv.run import running_server
from agent_env.plugin.trainer import RowSettings
from agent_env.testing.rehearsal import rehearse
from agent_env.training.verl.adapter import VerlAdapter

pytestmark = pytest.mark.timeout(280)
GRIDSIM = Path(__file__).parents[4] / "examples" / "gridsim"
SETTINGS = RowSettings(max_turns=6, tool_timeout=60, reset_timeout=120, model_timeout=60)
TASKS = 2


def test_rewards_equal_the_rehearsals(play_real: Any, tmp_path: Path) -> None:
    policies = {"greedy": None, "clumsy": "hermes"}
    rehearsed: dict[str, dict[str, float | None]] = {}

    async def main() -> list[dict[str, Any]]:
        for name, parser in policies.items():
            report = await rehearse(
                GRIDSIM,
                _policy(name),
                trainer="verl",
                split="eval",
                groups=TASKS,
                samples=1,
                rows=replace(SETTINGS, parser=parser),
            )
            rehearsed[name] = {group.task_id: group.samples[0].reward for group in report.groups}
        app = build_app(GRIDSIM, max_concurrent_envs=4)
        async with running_server(app) as url:
            runs: list[dict[str, Any]] = []
            for name, parser in policies.items():
                out = tmp_path / name
                await VerlAdapter().write_rows(url, out, replace(SETTINGS, parser=parser))
                runs.append(
                    {
                        "rows": str(out / "eval.parquet"),
                        "policy": f"{GRIDSIM / 'policies.py'}:{name}",
                        "samples": 1,
                        "worker": "v1",
                        "tasks": TASKS,
                    }
                )
            answers: list[dict[str, Any]] = await play_real(runs)
            return answers

    for name, made in zip(policies, asyncio.run(main()), strict=True):
        rewards = {sample["agentenv"]["task_id"]: sample["reward"] for sample in made["samples"]}
        assert len(rewards) == TASKS
        assert rewards == pytest.approx(rehearsed[name]), name
    assert any(reward and reward > 0.3 for reward in rehearsed["greedy"].values())


def _policy(name: str) -> Any:
    import importlib.util

    spec = importlib.util.spec_from_file_location("gridsim_policies", GRIDSIM / "policies.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)
