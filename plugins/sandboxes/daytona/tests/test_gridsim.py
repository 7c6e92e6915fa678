"""GridSim, rehearsed on the provider and on processes: the same policy earns the same."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.testing.rehearsal import rehearse

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_env.sandboxes.daytona.testing.standin import StandIn
    from agent_env.testing.rehearsal_report import Rehearsal

GRIDSIM = Path(__file__).parents[4] / "examples" / "gridsim"


@pytest.fixture
def greedy() -> Callable[..., dict[str, Any]]:
    spec = importlib.util.spec_from_file_location("gridsim_policies_for_daytona", GRIDSIM / "policies.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    policy: Callable[..., dict[str, Any]] = module.greedy
    return policy


def rewards(played: Rehearsal) -> list[tuple[str, list[float | None]]]:
    return [(group.task_id, [sample.reward for sample in group.samples]) for group in played.groups]


@pytest.mark.timeout(400)
def test_the_same_rewards_as_on_processes(
    standin: StandIn, options: dict[str, Any], greedy: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    async def play(sandbox: str, **given: str) -> Rehearsal:
        return await rehearse(GRIDSIM, greedy, groups=3, samples=2, sandbox=sandbox, sandbox_options={sandbox: given})

    before = standin.created
    there = asyncio.run(play("daytona", **{name: str(value) for name, value in options.items()}))
    assert [sample.failure for group in there.groups for sample in group.samples] == [None] * 6
    here = asyncio.run(play("process", state_dir=str(tmp_path / "p")))
    assert rewards(there) == rewards(here)
    assert len({reward for _, some in rewards(there) for reward in some}) > 1
    assert standin.created - before >= 6, "an episode had no sandbox of its own"
    assert standin.living == []
