"""Tools whose names clash, where the source of the envs says it for sure. The rest is found when a task is played."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agent_env.bundle.steps.agent import DeployAgent
from agent_env.bundle.steps.config import ModifyEnvToolAccess
from agent_env.bundle.steps.deploy import DeployEnv
from agent_env.bundle.toolset import uses_agent_sandbox

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agent_env.bundle.entities import Entities
    from agent_env.plugin.step import StepModel

RESERVED: Final = frozenset({"reset", "step", "state", "close", "end_turn"})
"""Names that the wire uses itself."""


def check_tools(
    steps: Sequence[StepModel],
    entities: Entities,
    report: Callable[[StepModel | None, str | None, str], None],
) -> None:
    """Report tools that two envs of the agent offer under one name, and names that no env may use.

    A task that changes access to tools may well hide one of them, so it is not judged here.
    """
    if any(isinstance(step, ModifyEnvToolAccess) for step in steps):
        return
    owners: dict[str, str] = {}
    if any(uses_agent_sandbox(step.model_dump(include={"type", "agent_name", "sandbox_name"})) for step in steps):
        owners["bash"] = "the agent's sandbox"
    for step in steps:
        folder = entities.folder("env", step.env_id) if isinstance(step, DeployEnv) else None
        if folder is None or not _seen(step, folder, steps, entities):
            continue
        owner = f"the env {folder!r} of the step {step.id!r}"
        for tool in entities.tools(folder):
            if tool in RESERVED:
                report(step, "env_id", f"the env {folder!r} offers a tool {tool!r}, a name that the wire uses itself")
            elif tool in owners:
                report(step, "env_id", f"the tool {tool!r} is offered by {owner} and by {owners[tool]}; rename one")
            owners.setdefault(tool, owner)


def _seen(deploy: StepModel, folder: str, steps: Sequence[StepModel], entities: Entities) -> bool:
    """Whether the played agent sees the env of a deploy step."""
    agent = next((step for step in steps if isinstance(step, DeployAgent)), None)
    if agent is None:
        return False
    if agent.env_ids is None and agent.env_step_id is None:
        return True
    return deploy.id == agent.env_step_id or any(entities.folder("env", name) == folder for name in agent.env_ids or ())
