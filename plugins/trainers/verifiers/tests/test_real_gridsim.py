"""The real verifiers plays GridSim against a stand-in model; its rewards are those of the rehearsal."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.openenv import build_app
from agent_env.openenv.run import running_server
from agent_env.plugin.trainer import RehearsalPlan, RehearsalSample, RowSettings
from agent_env.testing.policies import load_policy
from agent_env.testing.standin import StandInModel
from agent_env.training.verifiers.adapter import VerifiersAdapter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

GRIDSIM = Path(__file__).parents[4] / "examples" / "gridsim"
TASKS = 3


@pytest.mark.timeout(300)
def test_rewards_are_those_of_the_rehearsal(
    run_real: Callable[..., Awaitable[list[dict[str, Any]]]], tmp_path: Path
) -> None:
    reply = load_policy(GRIDSIM, "greedy")

    async def main() -> None:
        async with running_server(build_app(GRIDSIM)) as url, StandInModel(reply) as model:
            plan = RehearsalPlan(url, "train", TASKS, 1, reply)
            events = [event async for event in VerifiersAdapter().rehearse(plan)]
            wanted = {event.task_id: event for event in events if isinstance(event, RehearsalSample)}
            assert len(wanted) == TASKS
            assert len({sample.reward for sample in wanted.values()}) > 1
            await VerifiersAdapter().write_rows(url, tmp_path, RowSettings())
            here = {"taskset": {"url": url}, "model": model.url, "tasks": TASKS, "samples": 2}
            rows = {"taskset": {"rows": str(tmp_path / "train.jsonl")}}
            null = {"agent": {"harness": {"id": "null"}}, "samples": 1}
            done = await run_real(here, {**here, **rows, "served": True}, {**here, **null})
            for result, samples in zip(done, (2, 2, 1), strict=True):
                check(result, wanted, samples)

    asyncio.run(main())


PAGE = (Path(__file__).parents[4] / "docs" / "training" / "verifiers.md").read_text("utf-8")


def documented(language: str, start: str = "") -> list[str]:
    """The blocks of the page."""
    blocks: list[str] = re.findall(rf"^```{language}\n(.*?)```$", PAGE, re.DOTALL | re.MULTILINE)
    return [block for block in blocks if block.startswith(start)]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("form", ["command", "file"])
def test_the_documented_command_line_plays_it(form: str, venv: Path, tmp_path: Path) -> None:
    reply = load_policy(GRIDSIM, "optimal")

    async def main() -> None:
        async with running_server(build_app(GRIDSIM)) as url, StandInModel(reply) as model:

            def here(text: str) -> str:
                text = text.replace("http://127.0.0.1:8000", url).replace("http://127.0.0.1:9000", model.url)
                return text.replace("-n 8 -r 4", "-n 3 -r 2").replace("= 8", "= 3").replace("= 4", "= 2")

            (line,) = documented("sh", "vf-eval")
            words = shlex.split(here(line.replace("\\\n", " ")))
            if form == "file":
                (tmp_path / "eval.toml").write_text(here("\n".join(documented("toml"))), "utf-8")
                assert "`vf-eval @ eval.toml --no-push`" in PAGE
                words = ["vf-eval", "@", "eval.toml", "--no-push"]
            child = await asyncio.create_subprocess_exec(
                *(str(venv.parent / words[0]), *words[1:], "--rich", "None"),
                cwd=tmp_path,
                env={**os.environ, "MODEL_KEY": "none"},
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            said, _ = await child.communicate()
            assert child.returncode == 0, said.decode()[-3000:]

    asyncio.run(main())
    (written,) = tmp_path.rglob("traces.jsonl")
    episodes = [json.loads(line) for line in written.read_text("utf-8").splitlines()]
    assert len(episodes) == 6
    for episode in episodes:
        (trace,) = episode["traces"]
        assert trace["ok"]
        assert trace["rewards"]["reward"]["score"] == pytest.approx(1.0)


@pytest.mark.timeout(300)
def test_mistakes_of_the_model_are_counted_and_scored(run_real: Callable[..., Awaitable[list[dict[str, Any]]]]) -> None:
    reply = load_policy(GRIDSIM, "clumsy")

    async def main() -> None:
        async with running_server(build_app(GRIDSIM)) as url, StandInModel(reply) as model:
            events = [event async for event in VerifiersAdapter().rehearse(RehearsalPlan(url, "train", 8, 1, reply))]
            wanted = {event.task_id: event for event in events if isinstance(event, RehearsalSample)}
            (done,) = await run_real({"taskset": {"url": url}, "model": model.url, "tasks": 8, "samples": 1})
        assert len(done["episodes"]) == len(wanted) == 8
        for episode in done["episodes"]:
            sample = wanted[episode["id"]]
            assert (episode["errors"], episode["reward"]) == ([], sample.reward)
            counts = (episode["metrics"]["tool_calls"], episode["metrics"]["invalid_calls"])
            assert counts == (sample.tool_calls, sample.invalid_calls)
            assert episode["metrics"]["unknown_calls"] == 1
            assert sample.invalid_calls > 0

    asyncio.run(main())


def check(result: dict[str, Any], wanted: dict[str, RehearsalSample], samples: int) -> None:
    assert (result["open"], result["servers"], result["torch"]) == (0, 0, False)
    assert len(result["episodes"]) == TASKS * samples
    for episode in result["episodes"]:
        sample = wanted[episode["id"]]
        assert episode["errors"] == []
        assert episode["ok"]
        assert episode["reward"] == sample.reward
        assert episode["rewards"] == {"reward": sample.reward}
        scores = {key: value for key, value in episode["metrics"].items() if key.startswith("score/")}
        assert scores == {f"score/{step}": value for step, value in sample.scores.items()}
        assert episode["metrics"]["tool_calls"] == sample.tool_calls == 3
        # Native calls: messages with calls, answers with the role of a tool, all tools of the env offered.
        assert episode["calls"] == ["read_day", "check_schedule", "submit_schedule", "end_turn"]
        assert set(episode["calls"]) == set(episode["tools"])
        assert episode["roles"] == ["system", "user", *["assistant", "tool"] * 3, "assistant"]
        assert episode["turns"] == sample.turns
    assert {episode["idx"] for episode in result["episodes"]} == set(range(TASKS))
