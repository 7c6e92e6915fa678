"""Which tasks offer the same tools: a digest of the steps that decide it, taken before seeds are filled in."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Final

from agent_env.bundle.steps import BUILTIN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from agent_env.bundle.entities import Entities

_DECIDE: Final = frozenset(
    {"deploy_env", "deploy_agent", "deploy_sandbox", "modify_env_tool_access", "apply_server_config", "load_artifact"}
)
_ENVELOPE: Final = frozenset({"id", "version", "depends_on", "fail_task_on_error"})
_AGENT_FIELDS: Final = frozenset({"type", "env_ids", "env_step_id", "role"})
_AGENT_SANDBOX: Final = frozenset({"run_code", "load_artifact"})


def uses_agent_sandbox(step: Mapping[str, Any]) -> bool:
    """Whether a step works in the played agent's sandbox, which gives the agent a ``bash`` tool."""
    if step.get("type") == "verify_sandbox":
        return step.get("sandbox_name") is None
    return step.get("agent_name") is not None and step.get("type") in _AGENT_SANDBOX


def digest(steps: Iterable[Mapping[str, Any]], entities: Entities) -> str:
    """The digest of a task's steps as its file has them. Ids of steps do not count, names of envs are resolved."""
    steps = list(steps)
    numbers = {str(step["id"]): number for number, step in enumerate(_deciding(steps))}
    parts = [_part(step, numbers, entities) for step in _deciding(steps)]
    whole = {"steps": parts, "bash": any(uses_agent_sandbox(step) for step in steps)}
    text = json.dumps(whole, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _deciding(steps: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Steps that decide the tools; those of plugins may, so they count."""
    return [step for step in steps if step["type"] in _DECIDE or step["type"] not in BUILTIN]


def _part(step: Mapping[str, Any], numbers: Mapping[str, int], entities: Entities) -> dict[str, Any]:
    fields = {key: value for key, value in step.items() if key not in _ENVELOPE and value is not None}
    if step["type"] == "deploy_agent":
        fields = {key: value for key, value in fields.items() if key in _AGENT_FIELDS}
    if isinstance(fields.get("env_id"), str):
        fields["env_id"] = entities.folder("env", fields["env_id"]) or fields["env_id"]
    if isinstance(fields.get("env_ids"), list):
        fields["env_ids"] = [entities.folder("env", str(name)) or name for name in fields["env_ids"]]
    if "env_step_id" in fields:
        fields["env_step_id"] = numbers.get(str(fields["env_step_id"]), fields["env_step_id"])
    return fields
