"""The real agent of NeMo Gym over our resources server; its pydantic models check every answer."""

from __future__ import annotations

import asyncio
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.openenv import build_app
from agent_env.openenv.run import running_server
from agent_env.plugin.trainer import RehearsalPlan, RehearsalSample, RowSettings
from agent_env.testing.policies import load_policy
from agent_env.testing.small import serve_in_process, small_bundle
from agent_env.training.nemo_gym.adapter import NemoGymAdapter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Run = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]

GRIDSIM = Path(__file__).parents[4] / "examples" / "gridsim"
DIE = """
def dies(messages, tools):
    call = {"function": {"name": "die", "arguments": {}}}
    said = any(message["role"] == "tool" for message in messages)
    return {"content": "xyzzy"} if said or "find-1" in messages[0]["content"] else {"content": "", "tool_calls": [call]}
"""


async def rows_of(url: str, out: Path, split: str) -> list[dict[str, Any]]:
    await NemoGymAdapter().write_rows(url, out, RowSettings())
    return [json.loads(line) for line in (out / f"{split}.jsonl").read_text("utf-8").splitlines()]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("policy", ["greedy", "clumsy"])
def test_rewards_are_those_of_the_rehearsal(policy: str, run_real: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with running_server(build_app(GRIDSIM)) as url:
            plan = RehearsalPlan(url, "train", 6, 1, load_policy(GRIDSIM, policy))
            events = [event async for event in NemoGymAdapter().rehearse(plan)]
            wanted = {event.task_id: event for event in events if isinstance(event, RehearsalSample)}
            rows = (await rows_of(url, tmp_path, "train"))[:6]
            order = {"bundle": str(GRIDSIM), "policy": policy, "rows": rows, "config": {"bundle_url": url}}
            done = await run_real({**order, "max_steps": 4})
        rewards: list[float] = []
        for row, run in zip(rows, done["runs"], strict=True):
            assert run["status"] == 200, run
            answer, sample = run["answer"], wanted[row["agentenv"]["task_id"]]
            about = answer["agentenv_result"]
            assert answer["reward"] == sample.reward
            assert "instance_config" not in answer
            assert about["scores"] == sample.scores
            assert (about["tool_calls"], about["invalid_calls"]) == (sample.tool_calls, sample.invalid_calls)
            assert answer["agentenv"] == row["agentenv"]
            rewards.append(answer["reward"])
        assert len(set(rewards)) > 1
        found = done["metrics"]["agent_metrics"]["mean/reward"]
        assert math.isclose(found, math.fsum(rewards) / len(rewards), abs_tol=1e-6)

    asyncio.run(main())


@pytest.mark.timeout(300)
def test_a_failed_episode_is_masked_and_left_out_of_the_metrics(run_real: Run, tmp_path: Path) -> None:
    async def main() -> None:
        bundle = small_bundle(tmp_path / "small")
        (bundle / "policies.py").write_text(DIE, "utf-8")
        async with serve_in_process(bundle) as served:
            rows = await rows_of(served.url, tmp_path / "rows", "train")
            order = {"bundle": str(bundle), "policy": "dies", "rows": rows}
            done = await run_real({**order, "config": {"bundle_url": served.url}})
            raised = await run_real({**order, "config": {"bundle_url": served.url, "on_infra_failure": "raise"}})
            await served.quiet()
        failed, scored = (run["answer"] for run in done["runs"])
        assert failed["instance_config"] == {"mask_sample": True}
        assert failed["agentenv_result"]["failure"]["kind"] == "env"
        assert (scored["reward"], scored["agentenv_result"]["failure"]) == (1.0, None)
        assert "instance_config" not in scored
        assert done["metrics"]["agent_metrics"]["mean/reward"] == 1.0
        assert [run["status"] for run in raised["runs"]] == [500, 200]
        assert "the episode failed: env" in raised["runs"][0]["answer"]

    asyncio.run(main())
