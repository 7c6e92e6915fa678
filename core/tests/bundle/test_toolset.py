"""Which tasks share a toolset: deploy, tool-access, configuration and load steps, before seeds are filled in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from agent_env.bundle import load_bundle

if TYPE_CHECKING:
    from collections.abc import Callable

ACCESS = {
    "id": "x",
    "type": "modify_env_tool_access",
    "env_id": "echo",
    "action": "disable",
    "role": "r",
    "tools": ["a"],
}
LOAD = {"id": "x", "type": "load_artifact", "env_id": "echo", "artifact_id": "check"}
BASH = {"id": "x", "type": "run_code", "script_artifact_id": "check", "agent_name": "default-agent"}

SAME: dict[str, Callable[[list[dict[str, Any]]], object]] = {
    "prompt": lambda t: t[3].update(prompt="Other", system_prompt="Other"),
    "ids of steps": lambda t: [step.update(id=f"my-{step['id']}") for step in t],
    "order written down": lambda t: t[1].update(depends_on=["deploy"]),
    "defaults written down": lambda t: t[0].update(sandbox_type=None),
    "agent's system prompt": lambda t: t[2].update(system_prompt="x", metadata={"a": 1}),
    "alias of the env": lambda t: t[0].update(env_id="parrot"),
    "verifier": lambda t: t[4].update(score_aggregator="any_pass"),
}
DIFFERENT: dict[str, Callable[[list[dict[str, Any]]], object]] = {
    "configuration": lambda t: t[1]["directives"][0]["args"].update(size=4),
    "role": lambda t: t[2].update(role="guest"),
    "resources": lambda t: t[0].update(cpu=2),
    "tool access": lambda t: t.insert(3, ACCESS),
    "load": lambda t: t.insert(3, LOAD),
    "no configuration": lambda t: t.pop(1),
    "agent's sandbox": lambda t: t.insert(3, BASH),
}


def digests(write: Any, steps: Any, edit: Callable[[list[dict[str, Any]]], object]) -> tuple[str, str]:
    task = steps()
    edit(task)
    bundle = load_bundle(write({"aliases.toml": '[envs]\necho = ["parrot"]', "tasks/other.json": task}))
    return bundle.templates["play"].toolset, bundle.templates["other"].toolset


@pytest.mark.parametrize("case", SAME)
def test_same(write: Any, steps: Any, case: str) -> None:
    one, other = digests(write, steps, SAME[case])

    assert one == other


@pytest.mark.parametrize("case", DIFFERENT)
def test_different(write: Any, steps: Any, case: str) -> None:
    one, other = digests(write, steps, DIFFERENT[case])

    assert one != other


def test_all_rows_of_a_template_share_one(write: Any, steps: Any, lines: Any) -> None:
    task = steps()
    task[1]["directives"][0]["args"] = {"size": "<size>"}
    folder = write({"tasks/day.json": task, "tasks/day.seeds.jsonl": lines([{"size": n} for n in range(3)])})

    bundle = load_bundle(folder)

    assert len({entry.toolset for entry in bundle.entries("all") if entry.template == "day"}) == 1
