"""Wrong usage ends with exit status 2 and one message, whatever was wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from agent_env.cli.bundle_new import write_bundle
from agent_env.registry import default_registry
from click.testing import CliRunner

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

Run = Callable[..., "subprocess.CompletedProcess[str]"]

WITHOUT_SERVER = """
import sys
class Without:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {missing!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Without())
"""


@pytest.fixture
def bundle(tmp_path: Path) -> str:
    write_bundle(tmp_path / "town")
    return str(tmp_path / "town")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("rehearse", "town", "--trainer", "mlies"), "unknown trainer 'mlies'"),
        (("rehearse", "town", "--sandbox", "proces"), "unknown sandbox 'proces'"),
        (("rehearse", "town", "--policy", "nobody"), "no policy 'nobody'"),
        (("rehearse", "town", "--split", "tset"), "no split 'tset'"),
        (("rehearse", "town", "--session", "v9"), "'v9'"),
        (("rehearse", "town", "--groups", "0"), "0 is not in the range"),
        (("rehearse", "town", "--tool-timeout", "0"), "--tool-timeout"),
        (("serve", "town", "--sandbox", "proces"), "unknown sandbox 'proces'"),
        (("serve", "town", "--reward", "nobody"), "no scoring step of the bundle"),
        (("serve", "town", "--reward", "weighted"), "weighted:"),
        (("serve", "town", "--reward", "step:nobody"), "no task has a scoring step 'nobody'"),
        (("serve", "town", "--token-var", "NOT_SET"), "NOT_SET"),
        (("rows", "mlies", "http://localhost:1", "out"), "unknown trainer 'mlies'"),
        (("rows", "miles", "http://localhost:1", "out", "--parser", "qewn"), "unknown parser 'qewn'"),
        (("rows", "miles", "http://localhost:1", "out", "--token-var", "NOT_SET"), "NOT_SET"),
        (("parse", "--parser", "qewn"), "unknown parser 'qewn'"),
        (("plugins", "check", "qewn"), "no plugin is called 'qewn'"),
        (("serv", "town"), "serve"),
    ],
    ids=str,
)
def test_wrong_usage(agentenv: Run, bundle: str, arguments: tuple[str, ...], words: str) -> None:
    del bundle
    done = agentenv(*arguments)
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("missing", ["fastapi", "uvicorn", "starlette"])
@pytest.mark.parametrize("command", ["serve", "rehearse"])
def test_without_the_servers_packages(agentenv: Run, bundle: str, command: str, missing: str) -> None:
    done = agentenv(command, bundle, code=WITHOUT_SERVER.format(missing={missing}))
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1
    assert "needs agentenv-core[server]: pip install" in done.stderr
    assert "pip install './core[server]'" in done.stderr
    assert repr(missing) in done.stderr


@pytest.mark.parametrize("name", default_registry().names("command"))
def test_a_commands_help_keeps_its_lines(name: str) -> None:
    registry = default_registry()
    if registry.provider("command", name).startswith("agentenv-core"):
        text = CliRunner().invoke(registry.load("command", name), ["--help"], terminal_width=80).output
        assert "\b" not in text
        assert "\\b" not in text
        assert "prints an object with the keys " not in text, "a list of keys was wrapped into one paragraph"
