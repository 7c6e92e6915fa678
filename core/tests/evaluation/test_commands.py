"""The commands as a user runs them, in processes of their own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.cli import eval_output
from agent_env.cli.main import run
from agent_env.errors import Failure
from agent_env.evaluation.record import EpisodeRecord
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


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--temperature", "nan"), "temperature must be a finite number"),
        (("--temperature", "inf"), "temperature must be a finite number"),
        (("--top-p", "nan"), "top_p must be a finite number"),
        (("--pass-at", "nan"), "pass_at must be a finite number"),
        (("--tool-timeout", "nan"), "tool_timeout must be seconds above 0"),
        (("--price-in", "nan", "--price-out", "1"), "must be finite numbers"),
        (("--price-in", "1", "--price-out", "inf"), "must be finite numbers"),
        (("--extra", "top_k=1e999"), "--extra top_k: '1e999' is not JSON"),
        (("--moved",), "--moved needs --out"),
    ],
)
def test_numbers_that_are_none_are_wrong_usage(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    common = ("--url", "http://127.0.0.1:9", "--base-url", "http://127.0.0.1:9", "--model", "m")
    assert run(["eval", *common, *arguments]) == 2
    assert words in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("number", "times", "status"),
    [(signal.SIGINT, 2, 130), (signal.SIGTERM, 1, 143)],
)
def test_a_run_that_is_asked_to_stop_ends_its_envs_and_goes_on_later(
    chat: Callable[..., Any], tmp_path: Path, number: signal.Signals, times: int, status: int
) -> None:
    server = chat(load_policy(GRIDSIM, "greedy"))
    arguments = ["eval", str(GRIDSIM), "--base-url", server.url, "--model", "greedy", "--limit", "3", "--k", "8"]
    arguments += ["--concurrency", "2", "--out", "run"]
    episodes = tmp_path / "run" / EPISODES_FILE

    async def main() -> tuple[int | None, str, set[str], Ended]:
        process = await start(*arguments, cwd=tmp_path)
        async with asyncio.timeout(90):
            while not episodes.exists() or episodes.read_bytes().count(b"\n") < 3:
                assert process.returncode is None, (await process.communicate())[1]
                await asyncio.sleep(0.01)
            for _ in range(times):
                process.send_signal(number)
            _, err = await process.communicate()
        return process.returncode, err.decode(), session_of(process.pid), await agentenv(*arguments, cwd=tmp_path)

    code, err, left, resumed = asyncio.run(main())
    assert code == status, err
    assert "stopped: the same command continues the run" in err
    assert "Traceback" not in err
    assert left == set()
    assert resumed[0] == 0
    assert "of 24 episodes are there already" in resumed[2]
    assert len(episodes.read_bytes().splitlines()) == 24


def session_of(leader: int) -> set[str]:
    """Processes of the session of ``leader``, which has ended; those that only wait to be collected do not count."""
    found: set[str] = set()
    for folder in Path("/proc").iterdir():
        try:
            name, _, rest = (folder / "stat").read_text().partition(") ")
        except OSError:
            continue
        fields = rest.split()
        if fields and fields[3] == str(leader) and fields[0] != "Z":
            found.add(name)
    return found


def test_many_episodes_at_once_under_a_low_soft_limit_of_files(chat: Callable[..., Any], tmp_path: Path) -> None:
    server = chat(load_policy(GRIDSIM, "idle"), gate=threading.Barrier(24))
    command = f"ulimit -Sn 96; exec {sys.executable} -c 'from _agentenv_start import main; main()' \"$@\""
    arguments = ["--base-url", server.url, "--model", "m", "--limit", "24", "--concurrency", "24", "--out", "run"]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("AGENTENV_")}
    done = subprocess.run(
        ["sh", "-c", command, "sh", "eval", str(GRIDSIM), *arguments],
        cwd=tmp_path,
        env=clean,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "24 scored, 0 failed" in done.stdout


def test_without_a_terminal_a_line_comes_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(eval_output, "QUIET_S", 0.0)
    failure = Failure("env", "died")
    with eval_output.Progress("m") as progress:
        progress.start(4, [EpisodeRecord("a", 0, 0, 1.0), EpisodeRecord("b", 1, 0, None, failure=failure)])
        progress.add(EpisodeRecord("b", 1, 0, 0.5))
        progress.add(EpisodeRecord("a", 0, 1, None, failure=failure))
    assert capsys.readouterr().err.splitlines() == [
        "2 of 4 episodes are there already",
        "2 of 4 episodes, mean 0.750",
        "3 of 4 episodes, mean 0.750, 1 failed",
    ]


def test_the_report_knows_the_prices_of_the_eval(chat: Callable[..., Any], bundle: Path, tmp_path: Path) -> None:
    server = chat(guess)

    async def main() -> list[Ended]:
        async with serve_in_process(bundle) as served:
            common = ("--url", served.url, "--base-url", server.url, "--model", "m", "--out", "a")
            return [
                await agentenv("eval", *common, "--price-in", "10000", "--price-out", "0", cwd=tmp_path),
                await agentenv("report", "a", cwd=tmp_path),
                await agentenv("report", "a", "--price-in", "0", "--price-out", "300000", "--out", "b", cwd=tmp_path),
            ]

    assert [code for code, _, _ in asyncio.run(main())] == [0, 0, 0]
    assert "<span>cost</span><strong>1.00</strong>" in (tmp_path / "a" / "report.html").read_text()
    assert "<span>cost</span><strong>3.00</strong>" in (tmp_path / "b").read_text()


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
