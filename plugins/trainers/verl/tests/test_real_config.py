"""The command of the docs is taken by verl's own entry point, and the settings that the page names are verl's."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any, cast

import pytest
import yaml  # type: ignore[import-untyped]
from agent_env.training.verl import AGENT_NAME

PAGE = (Path(__file__).parents[4] / "docs" / "training" / "verl.md").read_text("utf-8")
ROLLOUT = "actor_rollout_ref.rollout"
NAMED = re.compile(r"`((?:rollout|data|trainer|algorithm)(?:\.\w+)+)(?:`|=|: )")


def taken(command: str, python: str, folder: Path) -> dict[str, Any]:
    """The configuration that the entry point makes of the command."""
    environment = {**os.environ, "PATH": f"{Path(python).parent}:{os.environ['PATH']}", "HF_HOME": str(folder)}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        ["bash", "-euc", command],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env=environment,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    made: dict[str, Any] = yaml.safe_load(done.stdout[done.stdout.index("actor_rollout_ref:") :])
    return made


def lookup(config: dict[str, Any], name: str) -> object:
    value: object = config
    for part in name.split("."):
        assert isinstance(value, dict), name
        fields = cast("dict[str, object]", value)
        assert part in fields, f"verl has no setting {name}"
        value = fields[part]
    return value


@pytest.mark.timeout(300)
def test_the_documented_settings_are_verls(venv_python: str, tmp_path: Path) -> None:
    (command,) = re.findall(r"^```sh\n(LOOP=.*?)```$", PAGE, re.DOTALL | re.MULTILINE)
    assert "  ...\n" in command
    config = taken(command.replace("  ...\n", "  --cfg job\n"), venv_python, tmp_path)
    names = [re.sub("^rollout", ROLLOUT, name) for name in NAMED.findall(PAGE)]
    assert len(names) >= 10
    for name in names:
        lookup(config, name)
    (loop,) = yaml.safe_load(Path(str(lookup(config, f"{ROLLOUT}.agent.agent_loop_config_path"))).read_text("utf-8"))
    assert loop["name"] == AGENT_NAME
    assert lookup(config, f"{ROLLOUT}.multi_turn.format") == "hermes"
    assert (lookup(config, "data.max_prompt_length"), lookup(config, "data.max_response_length")) == (4096, 16384)
