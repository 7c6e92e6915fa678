"""The fields of the built-in step types: exactly those of the public format, with its defaults."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.bundle.step_types import StepTypes
from agent_env.bundle.steps import BUILTIN
from agent_env.bundle.steps.not_played import NOT_PLAYED
from agent_env.bundle.validation import validate
from agent_env.registry import Registry

if TYPE_CHECKING:
    from agent_env.plugin.step import StepModel

FORMAT = (Path(__file__).parent / "format_fields.txt").read_text().splitlines()
"""``type field, field=default, ...``, envelope left out."""

NEEDED_HERE = {
    ("prompt_agent", "prompt"),
    ("verify_sandbox", "criteria"),
    ("agent_prompt_response_verifier", "criteria"),
    ("aggregate_verifiers", "verifier_ids"),
}
"""Optional in the format and without a meaning when they are left out."""


def model(name: str) -> type[StepModel]:
    module, _, attribute = BUILTIN[name].partition(":")
    found: type[StepModel] = getattr(importlib.import_module(module), attribute)
    return found


def format_fields(line: str) -> tuple[str, dict[str, object]]:
    name, _, rest = line.partition(" ")
    fields: dict[str, object] = {}
    for part in rest.split(", "):
        field, equals, default = part.partition("=")
        fields[field] = eval(default) if equals else ...
    return name, fields


@pytest.mark.parametrize("line", FORMAT, ids=lambda line: line.split()[0])
def test_fields_and_defaults(line: str) -> None:
    name, expected = format_fields(line)
    envelope = {"id", "type", "version", "depends_on", "fail_task_on_error"}

    fields = model(name).model_fields

    assert set(fields) - envelope == set(expected)
    for field, default in expected.items():
        if default is ... or (name, field) in NEEDED_HERE:
            assert fields[field].is_required(), field
        else:
            assert fields[field].default == default, field
    assert fields["fail_task_on_error"].default is (name != "reset_env")


def test_all_49_types_are_known() -> None:
    assert len(BUILTIN) + len(NOT_PLAYED) == 49
    assert not BUILTIN.keys() & NOT_PLAYED.keys()


@pytest.mark.parametrize("name", NOT_PLAYED)
def test_types_that_are_not_played_say_so(name: str) -> None:
    why = StepTypes(Registry(entry_points=False)).find(name)

    assert isinstance(why, str)
    assert name in why
    assert "not play" in why


PROBE = {"type": "probe_file_exists", "paths": ["a"]}
UNIT_TESTS = {
    "type": "run_container_unit_tests_verifier",
    "sandbox_name": "s",
    "container_name": "c",
    "command": "pytest",
}

ACCEPTED: list[dict[str, Any]] = [
    {"type": "deploy_env", "env_id": "e", "cpu": 2, "memory_mb": 512, "ttl_seconds": 60.5, "env_version": 3},
    {"type": "deploy_env", "env_id": "e", "depends_on": [], "metadata": {"a": [1]}, "version": "1"},
    {"type": "deploy_env", "env_id": "e", "depends_on": ["a", {"task_step_id": "b"}], "artifact_id": None},
    {"type": "deploy_agent", "skills": [], "enable_docker": False, "network_policy": {"x": 1}},
    {"type": "prompt_agent", "prompt": "Hi", "max_conversation_turns": 1, "parts": None},
    {"type": "load_artifact", "env_id": "e", "artifacts": [{"id": "a"}, {"id": "b", "version": 2}]},
    {
        "type": "load_artifact",
        "sandbox_name": "s",
        "urls": ["https://example.org/a", {"url": "http://h/b", "filename": "c"}],
    },
    {
        "type": "apply_server_config",
        "env_id": "e",
        "directives": [
            {"service": "a", "environment": "a", "uri": "u", "args": None},
            {"environment": "*", "uri": "u"},
        ],
    },
    {"type": "run_code", "script_artifact_id": "a", "args": {"any": [1, None, "x", 1.5]}},
    {"type": "verify_sandbox", "criteria": [{**PROBE, "weight": 2, "id": "x", "description": "y"}]},
    {"type": "verify_sandbox", "criteria": [PROBE, {"type": "response_contains", "needles": ["x"]}]},
    {"type": "verify_sandbox", "criteria": [{"type": "probe_file_contains", "paths": ["a"], "value": "x+"}]},
    {
        "type": "agent_prompt_response_verifier",
        "prompt_id": "p",
        "criteria": [{"type": "response_regex_present", "criterion": "likes", "pattern": "a.b", "flags": "IGNORECASE"}],
    },
    {"type": "verify_sandbox", "criteria": [PROBE], "agent_name": "default-agent", "sandbox_name": "s"},
    {**UNIT_TESTS, "setup_commands": ["true"], "reward_path": "/logs/reward.txt", "timeout_sec": 1.5},
]

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({**UNIT_TESTS, "reward_path": "../reward.txt"}, "no '..'"),
    ({**UNIT_TESTS, "command": ""}, "field 'command'"),
    ({**UNIT_TESTS, "score_aggregator": "all_pass"}, "score_aggregator"),
    ({"type": "deploy_env"}, "field 'env_id': this field is missing"),
    ({"type": "deploy_env", "env_id": ""}, "field 'env_id': expected"),
    ({"type": "deploy_env", "env_id": 3}, "field 'env_id': expected a string, not 3"),
    ({"type": "deploy_env", "env_id": "e", "cpu": True}, "field 'cpu': expected a number, not true"),
    ({"type": "deploy_env", "env_id": "e", "cpu": "2"}, "field 'cpu': expected a number, not '2'"),
    ({"type": "deploy_env", "env_id": "e", "cpu": 0}, "field 'cpu': expected"),
    ({"type": "deploy_env", "env_id": "e", "memory_mb": 1.5}, "field 'memory_mb': expected a whole number, not 1.5"),
    (
        {"type": "deploy_env", "env_id": "e", "version": []},
        "field 'version': expected a string or a whole number, not []",
    ),
    ({"type": "deploy_env", "env_id": "e", "gateway_mode": "fast"}, "'performance' or 'consistent', not 'fast'"),
    (
        {"type": "deploy_env", "env_id": "e", "sandbox_typ": "x"},
        "unknown field 'sandbox_typ'; did you mean 'sandbox_type'?",
    ),
    ({"type": "deploy_env", "env_id": "e", "depends_on": "a"}, "field 'depends_on': expected a list, not 'a'"),
    ({"type": "deploy_env", "env_id": "e", "depends_on": [{"step": "a"}]}, "field 'depends_on[0]': expected a string"),
    ({"type": "deploy_env", "env_id": "e", "fail_task_on_error": 1}, "expected true or false, not 1"),
    ({"type": "deploy_env", "env_id": "e", "env_state_type": "x"}, "'env_state_type': is a feature"),
    ({"type": "deploy_env", "env_id": "e", "artifact_id": "x"}, "'artifact_id': is a feature"),
    ({"type": "deploy_agent", "skills": ["x"]}, "'skills': is a feature"),
    ({"type": "deploy_agent", "enable_docker": True}, "'enable_docker': is a feature"),
    ({"type": "deploy_agent", "enable_agent_changelog": True}, "'enable_agent_changelog': is a feature"),
    ({"type": "deploy_agent", "agent_snapshot_files_artifact_id": "x"}, "is a feature"),
    ({"type": "deploy_agent", "agent_changelog_object_url": "x"}, "is a feature"),
    ({"type": "prompt_agent"}, "field 'prompt': this field is missing"),
    ({"type": "prompt_agent", "prompt": "x", "promt_id": "p"}, "unknown field 'promt_id'; did you mean 'prompt_id'?"),
    ({"type": "prompt_agent", "prompt": "x", "parts": [{}]}, "'parts': is a feature"),
    ({"type": "prompt_agent", "prompt": "x", "output_format": {}}, "'output_format': is a feature"),
    ({"type": "prompt_agent", "prompt": "x", "agentenv_tools": []}, "'agentenv_tools': is a feature"),
    ({"type": "prompt_agent", "prompt": "x", "snapshot_config": {}}, "'snapshot_config': is a feature"),
    ({"type": "prompt_agent", "prompt": "x", "max_conversation_turns": 3}, "simulated user"),
    ({"type": "prompt_agent", "prompt": "x", "user_a2a_url": "http://x"}, "is a feature"),
    ({"type": "apply_server_config", "env_id": "e", "directives": []}, "field 'directives': expected"),
    ({"type": "apply_server_config", "env_id": "e", "directives": [{"uri": "u"}]}, "needs the field service"),
    (
        {"type": "apply_server_config", "env_id": "e", "directives": [{"service": "*", "uri": "u", "arg": {}}]},
        "unknown field 'arg' in field 'directives[0]'",
    ),
    (
        {"type": "apply_server_config", "env_id": "e", "directives": [{"service": "*", "uri": "u", "args": [1]}]},
        "field 'directives[0].args': expected an object, not [1]",
    ),
    (
        {
            "type": "apply_server_config",
            "env_id": "e",
            "directives": [{"service": "a", "environment": "b", "uri": "u"}],
        },
        "name different envs",
    ),
    ({"type": "load_artifact", "env_id": "e"}, "nothing to load"),
    ({"type": "load_artifact", "env_step_id": "d", "artifact_id": "a"}, "no target"),
    ({"type": "load_artifact", "artifact_id": "a"}, "no target"),
    ({"type": "load_artifact", "env_id": "e", "artifact_id": "a", "artifacts": [{"id": "a"}]}, "exclude each other"),
    ({"type": "load_artifact", "env_id": "e", "urls": ["file:///etc/passwd"]}, "http or https"),
    ({"type": "load_artifact", "env_id": "e", "urls": [{"url": "http://h/a", "filename": "../a"}]}, "plain file name"),
    ({"type": "load_artifact", "env_id": "e", "artifact_from_step_id": "a"}, "is a feature"),
    ({"type": "deploy_sandbox", "sandbox_name": "s", "sandbox_mode": "container"}, "needs the fields image and port"),
    ({"type": "deploy_sandbox", "sandbox_name": "s", "sandbox_mode": "box"}, "'vm' or 'container', not 'box'"),
    ({"type": "deploy_sandbox", "sandbox_name": "s", "sandbox_mode": "vm", "port": 70000}, "field 'port': expected"),
    ({"type": "deploy_sandbox", "sandbox_name": "s", "sandbox_mode": "vm", "network_policy": {}}, "is a feature"),
    ({"type": "run_code", "script_artifact_id": "a", "env_id": "e", "agent_name": "x"}, "at most one of"),
    ({"type": "run_code", "script_artifact_id": "a", "entrypoint": "a.b"}, "name of a Python function"),
    ({"type": "verify_sandbox"}, "field 'criteria': this field is missing"),
    ({"type": "verify_sandbox", "criteria": []}, "field 'criteria': expected"),
    ({"type": "verify_sandbox", "criteria": [{"type": "response_contains", "needles": ["x"]}]}, "'criteria'"),
    ({"type": "verify_sandbox", "criteria": [PROBE], "agent_name": "a", "sandbox_name": "s"}, "exclude each other"),
    (
        {"type": "verify_sandbox", "criteria": [{"type": "probe_file_exist", "paths": ["a"]}]},
        "unknown type of criterion 'probe_file_exist'; did you mean 'probe_file_exists'?",
    ),
    ({"type": "verify_sandbox", "criteria": [{"paths": ["a"]}]}, "has a field 'type'"),
    ({"type": "verify_sandbox", "criteria": [{"criterion": "bash_cmd_succeeds"}]}, "'criterion' is only a label"),
    ({"type": "verify_sandbox", "criteria": ["x"]}, "field 'criteria[0]'"),
    ({"type": "verify_sandbox", "criteria": [{**PROBE, "paths": []}]}, "field 'criteria[0].paths'"),
    ({"type": "verify_sandbox", "criteria": [{**PROBE, "path": "a"}]}, "unknown field 'path' in field 'criteria[0]'"),
    (
        {"type": "verify_sandbox", "criteria": [{"type": "probe_file_contains", "paths": ["a"], "expected": "("}]},
        "'(' is not a regular expression",
    ),
    (
        {"type": "verify_sandbox", "criteria": [{"type": "probe_file_contains", "paths": ["a"]}]},
        "exactly one of expected and value",
    ),
    (
        {"type": "agent_prompt_response_verifier", "prompt_id": "p", "criteria": [PROBE]},
        "unknown type of criterion 'probe_file_exists'",
    ),
    (
        {
            "type": "agent_prompt_response_verifier",
            "prompt_id": "p",
            "criteria": [{"type": "response_contains", "needles": [""]}],
        },
        "field 'criteria[0].needles[0]'",
    ),
    (
        {
            "type": "agent_prompt_response_verifier",
            "prompt_id": "p",
            "criteria": [{"type": "response_regex_present", "pattern": ""}],
        },
        "field 'criteria[0].pattern'",
    ),
    (
        {
            "type": "agent_prompt_response_verifier",
            "prompt_id": "p",
            "criteria": [{"type": "response_regex_present", "pattern": "a", "flags": ["IGNORE"]}],
        },
        "unknown flag 'IGNORE'",
    ),
    ({"type": "aggregate_verifiers"}, "field 'verifier_ids': this field is missing"),
    (
        {"type": "aggregate_verifiers", "verifier_ids": ["a"], "score_aggregator": "mean"},
        "'weighted_average', not 'mean'",
    ),
    ({"type": "modify_env_tool_access", "env_id": "e", "action": "hide", "role": "r", "tools": ["t"]}, "'enable'"),
    ({"type": "modify_env_tool_access", "env_id": "e", "action": "enable", "role": "", "tools": ["t"]}, "'role'"),
    (
        {"type": "modify_env_tool_access", "env_id": "e", "action": "enable", "role": "r", "tools": "t"},
        "expected a list",
    ),
]


@pytest.mark.parametrize("fields", ACCEPTED, ids=str)
def test_accepted(fields: dict[str, Any]) -> None:
    step, wrong = validate(model(fields["type"]), {"id": "s", **fields})

    assert not [problem.message for problem in wrong]
    assert step is not None
    assert step.id == "s"


@pytest.mark.parametrize(("fields", "words"), REFUSED, ids=str)
def test_refused_with_words(fields: dict[str, Any], words: str) -> None:
    step, wrong = validate(model(fields["type"]), {"id": "s", **fields})

    assert step is None
    assert [problem.message for problem in wrong if words in problem.message], [p.message for p in wrong]
    assert not any("Input should" in problem.message or "pydantic" in problem.message for problem in wrong)


def test_all_wrong_fields_of_a_step_are_reported() -> None:
    fields = {"id": "s", "type": "deploy_env", "env_id": 1, "cpu": "x", "sandbox_typ": "y", "memory_mb": 0}

    _, wrong = validate(model("deploy_env"), fields)

    assert len(wrong) == 4


def test_criteria_that_another_verifier_judges_are_skipped() -> None:
    fields = {
        "id": "s",
        "type": "verify_sandbox",
        "criteria": [PROBE, {"type": "response_contains", "needles": ["x"]}],
    }

    step, _ = validate(model("verify_sandbox"), fields)

    assert step is not None
    assert [criterion.type for criterion in step.criteria] == ["probe_file_exists"]  # type: ignore[attr-defined]
