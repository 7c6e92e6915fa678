"""``agentenv plugins check``."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import subprocess

Run = Callable[..., "subprocess.CompletedProcess[str]"]
AddPlugin = Callable[[str, str, str, str], None]

TWO = """
    from agent_env.plugin import ParserInfo, RewardInfo, hookimpl
    from agent_env.plugin.reward import RewardCombiner

    class Zero(RewardCombiner):
        def combine(self, scores, episode):
            return scores.get("grade", 0.0)

    def build(arguments):
        return Zero()

    @hookimpl
    def agentenv_rewards():
        return [RewardInfo("twice", "Zero for a missing score", "acme_hooks:build")]

    @hookimpl
    def agentenv_parsers():
        return [ParserInfo("twice", "None", "acme_hooks:nothing")]
"""


def test_a_table_and_exit_0(agentenv: Run) -> None:
    done = agentenv("plugins", "check", "weighted:a=0.7,b=0.3")
    assert done.returncode == 0, done.stderr
    *lines, last = done.stdout.splitlines()
    assert last.startswith("reward weighted:a=0.7,b=0.3 of agentenv-reward-basic ")
    assert last.endswith(f": {len(lines) - 1} passed, 0 failed, 1 skipped")
    assert {line.split()[0] for line in lines} == {"passed", "skipped"}
    assert any("a missing score is an error" in line for line in lines)
    assert done.stderr == ""


def test_a_failed_check_is_exit_1(agentenv: Run, add_plugin: AddPlugin) -> None:
    add_plugin("acme-env", "2.0", "acme", TWO)
    done = agentenv("plugins", "check", "twice", "--kind", "reward", "--option", "steps=grade")
    assert done.returncode == 1
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("failed") and "missing score" in line]
    assert "without the scores of grade it asked for 'grade' and gave 0.0 all the same" in line


def test_json(agentenv: Run) -> None:
    report = json.loads(agentenv("plugins", "check", "mean", "--json").stdout)
    assert (report["kind"], report["name"]) == ("reward", "mean")
    for check in report["checks"]:
        assert list(check) == ["name", "summary", "status", "reason", "seconds"]
        assert check["summary"]
        assert check["status"] in {"passed", "skipped"}


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["no-such"], 2, "no plugin is called 'no-such'; installed:"),
        (["no-such", "--kind", "reward"], 2, "unknown reward 'no-such'"),
        (["weighted"], 2, "write the whole spec"),
        (["mean", "--option", "steps"], 2, "write KEY=VALUE"),
        (["deploy_env"], 2, "a step type of the core"),
        (["twice"], 2, "'twice' is a reward and a parser: say which with --kind"),
        (["twice", "--kind", "parser"], 1, "acme_hooks has no 'nothing'"),
    ],
)
def test_what_cannot_be_checked_is_said(
    agentenv: Run, add_plugin: AddPlugin, arguments: list[str], code: int, words: str
) -> None:
    add_plugin("acme-env", "2.0", "acme", TWO)
    done = agentenv("plugins", "check", *arguments)
    assert done.returncode == code
    assert words in done.stderr
    assert "Traceback" not in done.stderr
