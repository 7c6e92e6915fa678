"""GridSim plays on both providers, with the rewards that it has on the process sandbox."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from agent_env.sandboxes.e2b.testing.server import StandIn

AGENTENV = Path(sys.executable).with_name("agentenv")
GRIDSIM = Path(__file__).parents[4] / "examples" / "gridsim"


def rehearse(*arguments: str, **variables: str) -> list[list[tuple[float | None, Any]]]:
    command = [str(AGENTENV), "rehearse", str(GRIDSIM), "--json", "--policy", "greedy"]
    done = subprocess.run(
        [*command, "--groups", "2", "--samples", "2", *arguments],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    result = json.loads(done.stdout)
    assert result["summary"]["failures"] == 0
    return [[(sample["reward"], sample["failure"]) for sample in group["samples"]] for group in result["groups"]]


@pytest.mark.timeout(500)
def test_gridsim_has_the_same_rewards(cloud: StandIn, hosted: StandIn) -> None:
    expected = rehearse("--sandbox", "process")
    assert [reward for group in expected for reward, _ in group if reward is None] == []
    options = [f"api_url={cloud.url}", f"sandbox_url={cloud.url}", "creates_per_s=50", "burst=20"]
    given = [word for option in options for word in ("--sandbox-option", f"e2b.{option}")]
    assert rehearse("--sandbox", "e2b", *given, E2B_API_KEY=cloud.key) == expected
    assert rehearse("--sandbox", "aenv", AENV_API_KEY=hosted.key, AENV_URL=hosted.url) == expected
    assert not cloud.boxes
    assert not hosted.boxes
