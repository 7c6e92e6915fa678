"""``agentenv plugins list``."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import subprocess

Run = Callable[..., "subprocess.CompletedProcess[str]"]
AddPlugin = Callable[[str, str, str, str], None]

GOOD = """
    from agent_env.plugin import CommandInfo, RewardInfo, hookimpl

    @hookimpl
    def agentenv_rewards():
        return [RewardInfo("acme", "Says acme", "json:loads")]

    @hookimpl
    def agentenv_commands():
        return [CommandInfo("acme", "Does acme things", "click:Command")]
"""
STEP = """
    from agent_env.plugin import StepInfo, hookimpl

    @hookimpl
    def agentenv_steps():
        return [StepInfo("lamp", "Turns it on", "json:loads", "json:loads")]
"""
LAZY = """
    from agent_env.plugin import SandboxInfo, hookimpl

    @hookimpl
    def agentenv_sandboxes():
        return [SandboxInfo("lazy", "Fails when used", "no_such_sdk:Box")]
"""


def listed(done: subprocess.CompletedProcess[str], *names: str) -> list[dict[str, Any]]:
    rows = json.loads(done.stdout)
    return [row for row in rows if row["distribution"] in names]


def test_the_table(agentenv: Run, add_plugin: AddPlugin) -> None:
    add_plugin("acme-env", "2.0", "acme", GOOD)
    add_plugin("bad-env", "0.1", "bad", "import no_such_sdk")
    add_plugin("off-env", "0.2", "off", "1/0")
    done = agentenv("plugins", "list", AGENTENV_DISABLE_PLUGINS="off")
    assert done.returncode == 0
    head, *lines = done.stdout.splitlines()
    assert head.split("  ")[0] == "KIND"
    assert head.split() == ["KIND", "NAME", "SUMMARY", "PLUGIN", "HOME", "PAGE", "STATUS"]
    cells = [[head_cell.strip() for head_cell in line.split("  ") if head_cell.strip()] for line in lines]
    assert ["reward", "acme", "Says acme", "acme-env 2.0", "-", "ok"] in cells
    failed = "failed: cannot be imported: it needs the package 'no_such_sdk', which is not installed: "
    assert ["plugin", "bad", "-", "bad-env 0.1", "-", f'{failed}pip install "bad-env"'] in cells
    assert ["plugin", "off", "-", "off-env 0.2", "-", "disabled: switched off by AGENTENV_DISABLE_PLUGINS=off"] in cells
    assert not [line for line in lines if line.startswith(("command", "step"))]
    assert "Traceback" not in done.stderr


def test_steps_of_others_are_shown(agentenv: Run, add_plugin: AddPlugin) -> None:
    add_plugin("acme-env", "2.0", "acme", STEP)
    shown = {row["name"]: row["distribution"] for row in json.loads(agentenv("plugins", "list", "--json").stdout)}
    assert shown["lamp"] == "acme-env"
    assert "agentenv-core" not in shown.values()


def test_a_narrow_terminal_gets_fewer_columns(agentenv: Run, add_plugin: AddPlugin) -> None:
    add_plugin("acme-env", "2.0", "acme", GOOD)

    def columns(width: int) -> list[str]:
        done = agentenv("plugins", "list", COLUMNS=str(width))
        assert "acme-env 2.0" in done.stdout
        return done.stdout.splitlines()[0].replace("HOME PAGE", "HOME-PAGE").split()

    whole = max(len(line) for line in agentenv("plugins", "list", COLUMNS="9999").stdout.splitlines()) + 4
    assert columns(whole) == ["KIND", "NAME", "SUMMARY", "PLUGIN", "HOME-PAGE", "STATUS"]
    assert columns(whole - 8) == ["KIND", "NAME", "SUMMARY", "PLUGIN", "STATUS"]
    assert columns(20) == ["KIND", "NAME", "PLUGIN", "STATUS"]


def test_json_has_its_documented_keys(agentenv: Run, add_plugin: AddPlugin) -> None:
    add_plugin("acme-env", "2.0", "acme", GOOD)
    done = agentenv("plugins", "list", "--json")
    assert listed(done, "acme-env") == [
        {
            "kind": "reward",
            "name": "acme",
            "summary": "Says acme",
            "distribution": "acme-env",
            "version": "2.0",
            "entry_point": "acme",
            "status": "ok",
            "reason": "",
            "home_page": "",
        }
    ]
    documented = agentenv("plugins", "list", "--help").stdout
    for key, value in listed(done, "acme-env")[0].items():
        assert isinstance(value, str)
        assert f"\n    {key} " in documented


def test_all_also_shows_steps_and_commands(agentenv: Run, add_plugin: AddPlugin) -> None:
    add_plugin("acme-env", "2.0", "acme", GOOD)
    rows = listed(agentenv("plugins", "list", "--json", "--all"), "acme-env")
    assert [(row["kind"], row["name"]) for row in rows] == [("reward", "acme"), ("command", "acme")]


def test_check_imports_what_is_offered_and_sets_the_exit_code(agentenv: Run, add_plugin: AddPlugin) -> None:
    only = {"AGENTENV_PLUGINS": "lazy"}
    add_plugin("lazy-env", "1.0", "lazy", LAZY)
    plain = agentenv("plugins", "list", "--json", **only)
    assert [row["status"] for row in listed(plain, "lazy-env")] == ["ok"]
    assert plain.returncode == 0
    checked = agentenv("plugins", "list", "--json", "--check", **only)
    (row,) = listed(checked, "lazy-env")
    assert row["status"] == "failed"
    assert "no_such_sdk" in row["reason"]
    assert checked.returncode == 1


@pytest.mark.parametrize("text", ["1/0", GOOD], ids=["failed", "clash"])
def test_exit_code_1_only_with_check(agentenv: Run, add_plugin: AddPlugin, text: str) -> None:
    add_plugin("acme-env", "2.0", "acme", GOOD)
    add_plugin("other-env", "2.0", "other", text)
    assert agentenv("plugins", "list").returncode == 0
    assert agentenv("plugins", "list", "--check").returncode == 1


def test_a_switch_that_names_nothing_is_a_warning(agentenv: Run) -> None:
    done = agentenv("plugins", "list", "--json", AGENTENV_DISABLE_PLUGINS="acme,core")
    assert "warning: AGENTENV_DISABLE_PLUGINS: no plugin is called 'acme'" in done.stderr
    assert "warning: AGENTENV_DISABLE_PLUGINS: 'core' is a part of the core and cannot be switched off" in done.stderr
    json.loads(done.stdout)
