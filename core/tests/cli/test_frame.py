"""The frame: start, help, errors and exit codes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

Run = Callable[..., "subprocess.CompletedProcess[str]"]
AddPlugin = Callable[[str, str, str, str], None]

COMMANDS = """
    from agent_env.plugin import CommandInfo, hookimpl

    @hookimpl
    def agentenv_commands():
        return [
            CommandInfo("acme", "Does acme things", "acme_commands:acme"),
            CommandInfo("acme-tools list", "Lists acme tools", "acme_commands:tools"),
            CommandInfo("ends", "Ends in many ways", "acme_commands:ends"),
            CommandInfo("no-command", "Is no command", "json:loads"),
            CommandInfo("gone", "Is not there", "acme_gone:command"),
        ]
"""

BODIES = """
import os, signal, sys, time
import click
from agent_env.errors import AgentEnvError, BundleError, EnvError, UsageError

@click.command()
@click.argument("word")
def acme(word):
    click.echo(f"acme {word}")

@click.command()
def tools():
    click.echo("hammer")

@click.command()
@click.argument("how")
def ends(how):
    if how == "error":
        raise BundleError("the bundle is wrong")
    if how == "usage":
        raise UsageError("there is no such split")
    if how == "group":
        raise ExceptionGroup("tasks", [EnvError("env a is gone"), ExceptionGroup("x", [EnvError("env b is gone")])])
    if how == "mixed":
        raise ExceptionGroup("tasks", [EnvError("env a is gone"), ValueError("a bug")])
    if how == "bug":
        raise ValueError("a bug")
    if how == "denied":
        open("/dev/null/x")
    if how == "timeout":
        raise TimeoutError
    if how == "exit":
        raise click.exceptions.Exit(7)
    if how == "sleep":
        print("ready", flush=True)
        time.sleep(60)
    if how == "flood":
        for _ in range(100_000):
            click.echo("x" * 100)
    if how == "trickle":
        click.echo("x")
    if how == "buffered":
        sys.stdout.write("x")
        raise click.exceptions.Exit(0)
"""


@pytest.fixture
def acme(add_plugin: AddPlugin, site: Path) -> None:
    add_plugin("acme-env", "2.0", "acme", COMMANDS)
    (site / "acme_commands.py").write_text(BODIES)


# -- start ------------------------------------------------------------------------------------------------------------


def test_version_loads_next_to_nothing(agentenv: Run) -> None:
    heavy = "('rich', 'pydantic', 'fastapi', 'starlette', 'uvicorn', 'httpx', 'websockets', 'asyncio')"
    code = (
        "import atexit\n"
        f"atexit.register(lambda: print('loaded:', [m for m in {heavy} if m in sys.modules], file=sys.stderr))"
    )
    done = agentenv("--version", code=code)
    assert done.stdout == f"agentenv {version('agentenv-core')}\n"
    assert done.stderr == "loaded: []\n"
    assert done.returncode == 0


@pytest.mark.parametrize("name", ["agentenv_framework-0.1.dist-info", "agentenv_framework.egg-info"])
def test_agentenv_framework_in_the_same_environment_is_refused(agentenv: Run, site: Path, name: str) -> None:
    (site / name).mkdir()
    text = "Metadata-Version: 2.1\nName: agentenv-framework\nVersion: 0.1\n"
    (site / name / ("METADATA" if "dist" in name else "PKG-INFO")).write_text(text)
    (site / "agent_env").mkdir()
    (site / "agent_env" / "__init__.py").write_text("raise AssertionError('imported')")
    done = agentenv("--version")
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert "cannot share one Python environment" in done.stderr
    assert "agentenv-framework" in done.stderr


# -- help -------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("acme")
def test_help_lists_the_cores_and_plugins_commands_without_importing_them(agentenv: Run, site: Path) -> None:
    (site / "acme_commands.py").write_text("raise AssertionError('imported')")
    done = agentenv("--help")
    assert done.returncode == 0
    lines = {" ".join(line.split()) for line in done.stdout.splitlines()}
    assert {"acme Does acme things", "acme-tools list Lists acme tools"} <= lines
    for name in ("bundle check", "bundle list", "bundle new", "plugins list", "rehearse", "rows", "serve"):
        assert name in done.stdout
    group = agentenv("acme-tools", "--help")
    assert "list  Lists acme tools" in group.stdout
    assert "acme_commands" not in group.stderr


@pytest.mark.usefixtures("acme")
def test_commands_of_plugins_run(agentenv: Run) -> None:
    assert agentenv("acme", "anvil").stdout == "acme anvil\n"
    assert agentenv("acme-tools", "list").stdout == "hammer\n"


@pytest.mark.usefixtures("acme")
def test_completion_knows_the_commands_without_importing_them(agentenv: Run, site: Path) -> None:
    (site / "acme_commands.py").write_text("raise AssertionError('imported')")
    done = agentenv(_AGENTENV_COMPLETE="bash_complete", COMP_WORDS="agentenv ac", COMP_CWORD="1")
    assert done.stdout.splitlines() == ["plain,acme", "plain,acme-tools"]


# -- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("acme")
@pytest.mark.parametrize(
    ("how", "code", "says"),
    [
        ("error", 1, "error: the bundle is wrong\n"),
        ("usage", 2, "error: there is no such split\n"),
        ("group", 1, "error: env a is gone\nerror: env b is gone\n"),
        ("denied", 1, "error: /dev/null/x: Not a directory\n"),
        ("exit", 7, ""),
    ],
)
def test_an_error_is_one_message_and_an_exit_code(agentenv: Run, how: str, code: int, says: str) -> None:
    done = agentenv("ends", how)
    assert (done.returncode, done.stderr, done.stdout) == (code, says, "")


@pytest.mark.usefixtures("acme")
@pytest.mark.parametrize(
    ("how", "says"), [("bug", "ValueError: a bug"), ("mixed", "ValueError: a bug"), ("timeout", "TimeoutError")]
)
def test_a_bug_keeps_its_traceback(agentenv: Run, how: str, says: str) -> None:
    done = agentenv("ends", how)
    assert done.returncode == 1
    assert done.stderr.splitlines().count(says) + done.stderr.count(f"| {says}") == 1
    assert "Traceback" in done.stderr
    assert agentenv("--debug", "ends", how).stderr.count("Traceback") == done.stderr.count("Traceback")


@pytest.mark.usefixtures("acme")
def test_debug_shows_the_traceback_of_an_error(agentenv: Run) -> None:
    for done in (agentenv("--debug", "ends", "error"), agentenv("ends", "error", AGENTENV_DEBUG="1")):
        assert done.returncode == 1
        assert "Traceback" in done.stderr
        assert done.stderr.endswith("error: the bundle is wrong\n")
    assert "Traceback" not in agentenv("ends", "error", AGENTENV_DEBUG="0").stderr


@pytest.mark.usefixtures("acme")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["acmee"], "unknown command 'acmee'; installed: acme, acme-tools list"),
        (["acmee"], "Did you mean 'acme'?"),
        (["acme-tools", "lst"], "Did you mean 'acme-tools list'?"),
        (["plugins", "list", "--jsn"], "--jsn"),
        (["acme"], "Missing argument 'WORD'"),
        (["--colour"], "--colour"),
    ],
)
def test_wrong_usage_is_exit_code_2(agentenv: Run, arguments: list[str], says: str) -> None:
    done = agentenv(*arguments)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.usefixtures("acme")
def test_a_command_that_cannot_be_imported_names_its_plugin(agentenv: Run) -> None:
    done = agentenv("gone")
    assert done.returncode == 1
    assert done.stderr.startswith("error: command 'gone' of acme-env 2.0 cannot be imported: ")
    done = agentenv("no-command")
    assert done.returncode == 1
    assert "command 'no-command' of acme-env 2.0: expected a click.Command, found a function" in done.stderr


@pytest.mark.usefixtures("acme")
def test_an_interrupt_ends_with_130(agentenv: Run, site: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", "from _agentenv_start import main; main()", "ends", "sleep"],
        env={**os.environ, "PYTHONPATH": str(site)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in stderr


@pytest.mark.usefixtures("acme")
@pytest.mark.parametrize("how", ["flood", "trickle", "buffered"])
def test_a_reader_that_leaves_is_no_error(site: Path, how: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-c", "from _agentenv_start import main; main()", "ends", how],
            env={**os.environ, "PYTHONPATH": str(site)},
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(writer)
    assert done.stderr == ""
    assert done.returncode == 1


# -- plugins off ------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("acme")
def test_no_plugins_leaves_the_core_alone(agentenv: Run) -> None:
    done = agentenv("--no-plugins", "--help")
    assert "plugins list" in done.stdout
    assert "acme" not in done.stdout
    done = agentenv("--no-plugins", "acme", "anvil")
    assert done.returncode == 2
    assert "off: acme-env 2.0 (acme): switched off by AGENTENV_DISABLE_PLUGINS=*" in done.stderr


def test_a_run_inside_another_program_changes_no_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from agent_env.cli.main import run

    monkeypatch.setenv("AGENTENV_DISABLE_PLUGINS", "acme")
    assert run(["--no-plugins", "plugins", "list"]) == 0
    assert os.environ["AGENTENV_DISABLE_PLUGINS"] == "acme"
    monkeypatch.delenv("AGENTENV_DISABLE_PLUGINS")
    assert run(["--no-plugins", "--version"]) == 0
    assert "AGENTENV_DISABLE_PLUGINS" not in os.environ
    assert capsys.readouterr().out.endswith(f"agentenv {version('agentenv-core')}\n")


# -- where the output goes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("redirect", "code", "says"),
    [
        (">&-", 0, ""),
        (">/dev/full", 1, "error: No space left on device\n"),
        ("<&- >/dev/null 2>&-", 0, ""),
    ],
)
@pytest.mark.parametrize("command", ["--help", "plugins list --json"])
def test_standard_output_that_cannot_be_written(redirect: str, code: int, says: str, command: str) -> None:
    program = f'exec "{sys.executable}" -c "from _agentenv_start import main; main()" {command} {redirect}'
    done = subprocess.run(["sh", "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (code, says)
