"""Any change to a good bundle is read, or refused with its file named: never a traceback."""

from __future__ import annotations

import copy
import json
import shutil
from typing import TYPE_CHECKING, Any, cast

import pytest
from agent_env.bundle import load_bundle
from agent_env.bundle.check import check_bundle
from agent_env.errors import BundleError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from agent_env.errors import Problem

SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)

TASK: list[dict[str, Any]] = [
    {"id": "deploy", "type": "deploy_env", "env_id": "echo", "cpu": 1, "memory_mb": 512},
    {"id": "box", "type": "deploy_sandbox", "sandbox_name": "box", "sandbox_mode": "vm", "depends_on": []},
    {
        "id": "config",
        "type": "apply_server_config",
        "env_id": "echo",
        "directives": [{"service": "*", "uri": "urn:x", "args": {"a": "<a>"}}],
        "depends_on": ["deploy", {"task_step_id": "box"}],
    },
    {
        "id": "load",
        "type": "load_artifact",
        "sandbox_name": "box",
        "artifacts": [{"id": "check"}],
        "urls": ["http://h/x"],
    },
    {"id": "agent", "type": "deploy_agent", "env_ids": ["echo"], "role": "guest"},
    {
        "id": "hide",
        "type": "modify_env_tool_access",
        "env_id": "echo",
        "action": "disable",
        "role": "guest",
        "tools": ["t"],
    },
    {"id": "ask", "type": "prompt_agent", "prompt": "Say <a> <seed>", "prompt_id": "p", "model": "big"},
    {"id": "code", "type": "run_code", "script_artifact_id": "check", "entrypoint": "verify", "args": {"x": "<a>"}},
    {"id": "grade", "type": "env_outcome_verifier", "env_id": "echo", "file_artifact_id": "check", "prompt_id": "p"},
    {
        "id": "files",
        "type": "verify_sandbox",
        "sandbox_name": "box",
        "criteria": [{"type": "probe_file_contains", "paths": ["a"], "expected": "<a>", "weight": 2}],
    },
    {
        "id": "says",
        "type": "agent_prompt_response_verifier",
        "prompt_id": "p",
        "criteria": [{"type": "response_regex_present", "pattern": "a.c", "flags": ["DOTALL"]}],
    },
    {"id": "score", "type": "aggregate_verifiers", "verifier_ids": ["grade", "files", "says"]},
]
ROWS = [{"id": "one", "a": "x"}, {"id": "two", "a": "y"}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fuzz") / "bundle"
    for path, text in {
        "envs/echo/Dockerfile": "FROM scratch\n",
        "envs/echo/env.toml": 'environment_name = "echo"\n',
        "artifacts/check/verify.py": "def verify(url): return []\n",
        "evals/e.toml": 'tasks = ["play/one"]\n',
        "tasks/play.json": json.dumps(TASK),
        "tasks/play.seeds.jsonl": "".join(json.dumps(row) + "\n" for row in ROWS),
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return folder


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place of a JSON value below the top."""
    if path:
        yield path
    if isinstance(value, dict):
        for key, item in cast("dict[str, Any]", value).items():
            yield from places(item, (*path, key))
    elif isinstance(value, list):
        items = cast("list[object]", value)
        for index, item in enumerate(items):
            yield from places(item, (*path, index))


@st.composite
def mutations(draw: st.DrawFn) -> list[Any]:
    task: list[Any] = copy.deepcopy(TASK)
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(sorted(places(task), key=repr)))
        parent: Any = task
        for part in path[:-1]:
            parent = parent[part]
        kind = draw(st.sampled_from(["delete", "mistype", "rename", "copy"]))
        if kind == "delete":
            del parent[path[-1]]
        elif kind == "mistype":
            parent[path[-1]] = draw(VALUES)
        elif kind == "rename" and isinstance(parent, dict):
            table = cast("dict[str, Any]", parent)
            table[draw(st.text(max_size=3)) + str(path[-1])] = table.pop(path[-1])
        elif kind == "copy" and isinstance(parent, list):
            items = cast("list[object]", parent)
            items.append(copy.deepcopy(items[path[-1]]))
    return task


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(mutations())
def test_a_mutated_task_is_read_as_it_stands_or_refused_at_its_step(folder: Path, task: list[Any]) -> None:
    (folder / "tasks/play.json").write_text(json.dumps(task), encoding="utf-8")

    problems, served = outcome(folder)

    steps = [cast("dict[str, Any]", step) for step in task if isinstance(step, dict)]
    names = {step.get("id") for step in steps if isinstance(step.get("id"), str)}
    for problem in problems:
        assert str(problem.path) in {"tasks/play.json", "tasks/play.seeds.jsonl"}
        assert problem.task == "play"
        assert problem.message
        assert problem.step is None or problem.step in names or problem.step.startswith("#")
    assert bool(problems) != bool(served)
    for step, raw in zip(served, steps, strict=True) if served else ():
        kept = step.model_dump(mode="json", exclude_unset=True)
        assert kept.keys() == {key for key in raw if key != "retry_config"}
        assert (kept["id"], kept["type"]) == (raw["id"], raw["type"])


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(["tasks/play.json", "tasks/play.seeds.jsonl", "envs/echo/env.toml", "evals/e.toml"]), st.data())
def test_damaged_files_are_read_or_refused(folder: Path, tmp_path: Path, name: str, data: st.DataObject) -> None:
    copied = tmp_path / "copy"
    shutil.rmtree(copied, ignore_errors=True)
    shutil.copytree(folder, copied)
    (copied / "tasks/play.json").write_text(json.dumps(TASK), encoding="utf-8")
    raw = bytearray((copied / name).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw)))
        raw[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    (copied / name).write_bytes(bytes(raw))

    problems, served = outcome(copied)

    assert problems or served


def outcome(folder: Path) -> tuple[list[Problem], tuple[Any, ...]]:
    """Problems, or the steps of the first task."""
    try:
        bundle = load_bundle(folder)
        seed = 3 if "seed" in bundle.templates["play"].placeholders else None
        served = bundle.task("all", 0, seed=seed).steps
        list(bundle.entries("all"))
    except BundleError as error:
        return list(error.problems), ()
    result = check_bundle(folder)
    if result.problems:
        return list(result.problems), ()
    return [], served
