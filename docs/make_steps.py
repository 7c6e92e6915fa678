"""Makes the page ``docs/steps.md`` from the models of the step types.

``python docs/make_steps.py`` writes it; a test holds that what is committed is what the models say.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Union, cast, get_args, get_origin

from agent_env.bundle.step_types import StepTypes
from agent_env.bundle.steps import BUILTIN, criteria, fields
from agent_env.bundle.steps.config import Directive
from agent_env.bundle.steps.load import ArtifactName, Url
from agent_env.plugin.step import StepModel
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

if TYPE_CHECKING:
    from types import UnionType

PAGE: Final = Path(__file__).parent / "steps.md"

EXAMPLES: Final[dict[str, dict[str, Any]]] = {
    "deploy_env": {"env_id": "gridsim", "cpu": 1, "memory_mb": 512},
    "reset_env": {"env_id": "gridsim"},
    "deploy_sandbox": {"sandbox_name": "judge", "sandbox_mode": "vm"},
    "deploy_agent": {"env_ids": ["gridsim"], "system_prompt": "You run a battery."},
    "prompt_agent": {"prompt": "Plan the day.", "prompt_id": "plan"},
    "apply_server_config": {
        "env_id": "gridsim",
        "directives": [{"service": "gridsim", "uri": "urn:gridsim:load-day/v1", "args": {"day": "<day>"}}],
    },
    "modify_env_tool_access": {
        "env_id": "gridsim",
        "action": "disable",
        "role": "default-agent",
        "tools": ["get_prices"],
    },
    "load_artifact": {"env_id": "gridsim", "artifacts": [{"id": "prices"}]},
    "run_code": {"script_artifact_id": "prepare", "entrypoint": "run", "args": {"day": 3}},
    "env_outcome_verifier": {
        "env_id": "gridsim",
        "file_artifact_id": "grade",
        "score_aggregator": "weighted_average",
    },
    "verify_sandbox": {
        "sandbox_name": "judge",
        "criteria": [
            {"type": "probe_file_exists", "paths": ["plan.json"]},
            {"type": "probe_file_contains", "paths": ["plan.json"], "expected": '"charge": \\d+', "weight": 2},
            {"type": "bash_cmd_succeeds", "bash_cmd": "python -m json.tool plan.json"},
        ],
    },
    "agent_prompt_response_verifier": {
        "prompt_id": "plan",
        "criteria": [
            {"type": "response_contains", "needles": ["profit"]},
            {"type": "response_regex_present", "pattern": "profit of \\d+", "flags": ["IGNORECASE"]},
        ],
    },
    "run_container_unit_tests_verifier": {
        "sandbox_name": "judge",
        "container_name": "judge",
        "setup_commands": ["python -m venv --system-site-packages .venv"],
        "command": ".venv/bin/python -m unittest && echo 1 > reward.txt || echo 0 > reward.txt",
        "timeout_sec": 120,
        "reward_path": "reward.txt",
    },
    "aggregate_verifiers": {"verifier_ids": ["grade", "answer"]},
}
CRITERIA: Final = {
    "verify_sandbox": (criteria.FileExists, criteria.DirExists, criteria.FileContains, criteria.BashSucceeds),
    "agent_prompt_response_verifier": (criteria.ResponseContains, criteria.ResponseMatches),
}
PARTS: Final = {"apply_server_config": (Directive,), "load_artifact": (ArtifactName, Url)}
_NAMES: Final = {str: "text", int: "whole number", float: "number", bool: "true or false", type(None): "null"}
_HEAD: Final = """# Step types

<!-- Made by docs/make_steps.py from the models; do not edit. -->

Every step has the fields `id` (text, unique in its task), `type`, `depends_on` (list of ids; absent = after all earlier
steps, `[]` = at once) and `fail_task_on_error` (default `true`). An unknown field is refused by name. In the tables,
*required* stands where there is no default; *accepted* fields belong to the format and mean nothing for a played agent:
`agentenv bundle check` notes them. Fields of the format that AgentEnv refuses when they are set stand below each table.
Times are in seconds.
"""


def page() -> str:
    """The text of the page."""
    return "\n".join([_HEAD, *(section(name) for name in BUILTIN)])


def section(name: str) -> str:
    """One step type."""
    model = StepTypes(None).find(name)
    assert not isinstance(model, str), model
    lines = [f"## `{name}`", "", words(model.__doc__), "", *table(model)]
    refused = [field for field, info in model.model_fields.items() if is_refused(info.annotation, info.metadata)]
    if refused:
        lines += ["", f"Refused when set: {', '.join(f'`{field}`' for field in refused)}."]
    for part in PARTS.get(name, ()):
        lines += ["", f"**{part.__name__}**: {words(part.__doc__)}", "", *table(part)]
    for criterion in CRITERIA.get(name, ()):
        (kind,) = get_args(criterion.model_fields["type"].annotation)
        lines += ["", f"**Criterion `{kind}`**: {words(criterion.__doc__)}", "", *table(criterion)]
    return "\n".join([*lines, "", "```json", json.dumps(example(name), ensure_ascii=False), "```", ""])


def example(name: str) -> dict[str, Any]:
    """A step of this type that is valid."""
    return {"id": name.partition("_")[0], "type": name, **EXAMPLES[name]}


def table(model: type[BaseModel]) -> list[str]:
    """The fields of a model, without those that every step has and those that are refused."""
    silent: frozenset[str] = getattr(model, "fields_without_meaning", frozenset())
    common: set[str] = set(StepModel.model_fields) if issubclass(model, StepModel) else set()
    rows = ["| field | value | default |", "|---|---|---|"]
    for field, info in model.model_fields.items():
        if field in common or is_refused(info.annotation, info.metadata) or (field == "type" and not common):
            continue
        shown = "*required*" if info.is_required() else f"`{json.dumps(default_of(info))}`"
        note = " (accepted)" if field in silent else ""
        rows.append(f"| `{field}` | {value_words(info.annotation)}{note} | {shown} |")
    return rows


def default_of(info: Any) -> Any:
    """A field's default as JSON has it."""
    value: Any = info.default_factory() if info.default is PydanticUndefined else info.default
    return value


def is_refused(annotation: Any, metadata: list[Any]) -> bool:
    """Whether a field is one of those that must not be set."""
    refusing = {get_args(kind)[1] for kind in (fields.NotPlayed, fields.NoItems)}
    return any(item in refusing for item in (*metadata, *get_args(annotation)))


def value_words(annotation: Any) -> str:
    """What a field takes."""
    origin = get_origin(annotation)
    inner = get_args(annotation)
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in inner)
    if origin is tuple:
        return f"list of {value_words(inner[0])}"
    if origin is dict:
        return "object"
    if origin is Union or _is_union(annotation):
        kinds = dict.fromkeys(value_words(item) for item in inner if item is not type(None))
        return " or ".join(kinds)
    if hasattr(annotation, "__metadata__"):
        return value_words(inner[0])
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return f"`{annotation.__name__}`" if annotation in _parts() else "criterion"
    return _NAMES.get(cast("Any", annotation), "any JSON")


def _parts() -> set[type[BaseModel]]:
    return {part for parts in PARTS.values() for part in parts}


def _is_union(annotation: UnionType | Any) -> bool:
    return type(annotation).__name__ == "UnionType"


def words(doc: str | None) -> str:
    """A docstring in one paragraph of Markdown."""
    return re.sub(r"\s+", " ", (doc or "").replace("``", "`").replace("`None`", "`null`")).strip()


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
