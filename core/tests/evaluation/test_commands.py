"""The commands as a user runs them, in processes of their own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.evaluation.store import EPISODES_FILE, read_run
from agent_env.plugin.trainer import RowSettings
from agent_env.testing.policies import load_policy
from agent_env.testing.rehearsal import rehearse
from agent_env.testing.small import serve_in_process
from agent_env.testing.standin import say

if TYPE_CHECKING:
    from collections.abc import Callable

GRIDSIM = Path(__file__).resolve().parents[3] / "examples" / "gridsim"
KEY = "sk-secret-0123456789"
Ended = tuple[int, str, str]


async def start(*arguments: str, cwd: Path, **variables: str) -> asyncio.subprocess.Process:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("AGENTENV_")}
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "from _agentenv_start import main\nmain()",
        *arguments,
        cwd=cwd,
        env={**clean, "NO_COLOR": "1", **variables},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )


async def agentenv(*arguments: str, cwd: Path, **variables: str) -> Ended:
    process = await start(*arguments, cwd=cwd, **variables)
    async with asyncio.timeout(120):
        out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


def guess(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
    del messages, tools
    return say("plugh")


def test_exit_statuses_and_output(chat: Callable[..., Any], bundle: Path, tmp_path: Path) -> None:
    good = chat(guess, key=KEY)

    async def main() -> dict[str, Ended]:
        async with serve_in_process(bundle) as served:
            common = ("--url", served.url, "--base-url", good.url, "--model", "m/x", "--api-key-var", "K")
            return {
                "ok": await agentenv("eval", *common, "--out", "a", cwd=tmp_path, K=KEY),
                "json": await agentenv("eval", *common, "--out", "a", "--json", cwd=tmp_path, K=KEY),
                "default": await agentenv("eval", *common, cwd=tmp_path, K=KEY),
                "bad key": await agentenv("eval", *common, "--out", "b", cwd=tmp_path, K="wrong-key-000"),
                "no key": await agentenv("eval", *common, "--out", "c", cwd=tmp_path),
                "other settings": await agentenv("eval", *common, "--out", "a", "--seed", "1", cwd=tmp_path, K=KEY),
                "split": await agentenv("eval", *common, "--out", "c", "--split", "nope", cwd=tmp_path, K=KEY),
                "prices": await agentenv("eval", *common, "--out", "c", "--price-in", "1", cwd=tmp_path, K=KEY),
                "both": await agentenv("eval", str(bundle), *common, "--out", "c", cwd=tmp_path, K=KEY),
                "report": await agentenv("report", "a", cwd=tmp_path),
                "no run": await agentenv("report", ".", cwd=tmp_path),
                "compare": await agentenv("compare", "a", "a", cwd=tmp_path),
                "compare json": await agentenv("compare", "a", "a", "--json", cwd=tmp_path),
            }

    done = asyncio.run(main())
    codes = {name: code for name, (code, _, _) in done.items()}
    assert codes == {
        **dict.fromkeys(("ok", "json", "default", "report", "compare", "compare json"), 0),
        "bad key": 1,
        **dict.fromkeys(("no key", "other settings", "split", "prices", "both", "no run"), 2),
    }
    assert "mean reward  0.000" in done["ok"][1]
    assert done["ok"][2] == ""
    figures = json.loads(done["json"][1])
    assert (figures["episodes"], figures["complete"], figures["stopped"]) == (1, True, None)
    assert figures == json.loads((tmp_path / "a" / "summary.json").read_text())
    (folder,) = (tmp_path / "eval-runs").iterdir()
    assert folder.name.startswith("rooms-eval-m-x-")
    assert "401" in done["bad key"][2]
    assert "K: that environment variable is not set" in done["no key"][2]
    assert "seed: the run has null, now 1" in done["other settings"][2]
    assert (tmp_path / "a" / "report.html").is_file()
    assert json.loads(done["compare json"][1])["difference"] == 0
    assert not (tmp_path / "c").exists()
    for code, out, err in done.values():
        assert "Traceback" not in err, (code, err)
        assert KEY not in out + err
        assert "wrong-key-000" not in out + err


def test_greedy_on_gridsim_has_the_mean_of_its_rehearsal(chat: Callable[..., Any], tmp_path: Path) -> None:
    reply = load_policy(GRIDSIM, "greedy")
    server = chat(reply)
    arguments = ("--base-url", server.url, "--model", "greedy", "--limit", "6", "--k", "2", "--json", "--out", "run")

    async def main() -> tuple[Ended, Any]:
        ended = await agentenv("eval", str(GRIDSIM), *arguments, cwd=tmp_path)
        return ended, await rehearse(
            GRIDSIM, reply, split="eval", groups=6, samples=2, rows=RowSettings(max_turns=16), max_concurrent_envs=4
        )

    (code, out, err), rehearsal = asyncio.run(main())
    assert code == 0, err
    evaluated = json.loads(out)
    assert evaluated["episodes"] == len(rehearsal.samples) == 12
    assert evaluated["mean_reward"] == pytest.approx(rehearsal.summary()["mean_reward"], abs=1e-12)
    assert evaluated["tool_calls"] == sum(sample.tool_calls for sample in rehearsal.samples)
    assert 0 < evaluated["mean_reward"] < 1


def test_a_run_that_was_killed_goes_on_where_it_stopped(chat: Callable[..., Any], tmp_path: Path) -> None:
    server = chat(load_policy(GRIDSIM, "greedy"))
    arguments = ["eval", str(GRIDSIM), "--base-url", server.url, "--model", "greedy", "--limit", "5", "--k", "4"]
    arguments += ["--concurrency", "2", "--json", "--out"]
    episodes = tmp_path / "killed" / EPISODES_FILE

    async def main() -> tuple[int, Ended, Ended]:
        process = await start(*arguments, "killed", cwd=tmp_path)
        async with asyncio.timeout(90):
            while not episodes.exists() or episodes.read_bytes().count(b"\n") < 5:
                assert process.returncode is None, (await process.communicate())[1]
                await asyncio.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        await process.communicate()
        kept = episodes.read_bytes().count(b"\n")
        # What a write that was cut short leaves.
        with episodes.open("ab") as file:
            file.write(b'{"task": "day/ev')
        resumed = await agentenv(*arguments, "killed", cwd=tmp_path)
        whole = await agentenv(*arguments, "whole", cwd=tmp_path)
        return kept, resumed, whole

    kept, resumed, whole = asyncio.run(main())
    assert 5 <= kept < 20
    assert (resumed[0], whole[0]) == (0, 0), resumed[2]
    same = {"run", "mean_episode_seconds"}
    first, second = (
        {key: value for key, value in json.loads(one[1]).items() if key not in same} for one in (resumed, whole)
    )
    assert first == second
    lines = [json.loads(line) for line in episodes.read_text().splitlines()]
    assert len(lines) == 20
    assert len({(line["task"], line["repeat"]) for line in lines}) == 20
    assert len(read_run(tmp_path / "killed")[1]) == 20
