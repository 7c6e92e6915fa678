"""Tasks: what is refused, with file, line and step; what is left out and what goes on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.bundle import load_bundle
from agent_env.errors import BundleError

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_env.errors import Problem

Edit = "Callable[[list[dict[str, Any]]], None]"


def problems(write: Any, steps: Any) -> list[Problem]:
    with pytest.raises(BundleError, match="no task of the bundle") as caught:
        load_bundle(write({"tasks/play.json": steps}))
    assert {problem.task for problem in caught.value.problems} == {"play"}
    return list(caught.value.problems)


def edited(steps: Any, edit: Callable[[list[dict[str, Any]]], object]) -> list[dict[str, Any]]:
    task: list[dict[str, Any]] = steps()
    edit(task)
    return task


EDITS: dict[str, tuple[Callable[[list[dict[str, Any]]], object], str | None, str]] = {
    "unknown type": (lambda t: t[3].update(type="promt_agent"), "ask", "did you mean 'prompt_agent'?"),
    "type of the format": (lambda t: t[3].update(type="review"), "ask", "'review' is a step type of the format"),
    "no type": (lambda t: t[3].pop("type"), "ask", "field 'type' has to name a step type"),
    "type is a number": (lambda t: t[3].update(type=3), "ask", "field 'type' has to name a step type"),
    "no id": (lambda t: t[3].pop("id"), "#4", "field 'id' has to be a string"),
    "empty id": (lambda t: t[3].update(id=""), "", "field 'id' has to be a string"),
    "same id": (lambda t: t[4].update(id="ask"), "ask", "the id 'ask' is also that of step #4"),
    "retry": (lambda t: t[3].update(retry_config={"max_retries": 1}), "ask", "retry_config"),
    "unknown field": (lambda t: t[3].update(promt_id="p"), "ask", "did you mean 'prompt_id'?"),
    "unknown dependency": (lambda t: t[3].update(depends_on=["agnt"]), "ask", "did you mean 'agent'?"),
    "own dependency": (lambda t: t[3].update(depends_on=["ask"]), "ask", "depends on itself"),
    "cycle": (lambda t: t[0].update(depends_on=["grade"]), "deploy", "wait for one another: 'deploy', 'config'"),
    "unknown env": (
        lambda t: t[0].update(env_id="ecko"),
        "deploy",
        "no env 'ecko' in the bundle; did you mean 'echo'?",
    ),
    "env in capitals": (lambda t: t[0].update(env_id="Echo"), "deploy", "did you mean 'echo'?"),
    "env of a store": (lambda t: t[0].update(env_id="team/minecraft"), "deploy", "the bundle has: 'echo'"),
    "env not deployed": (lambda t: t.pop(0), "config", "the env 'echo' is not deployed"),
    "env deployed later": (lambda t: t.append(t.pop(0)), "config", "does not run after 'deploy'"),
    "env not waited for": (lambda t: t[1].update(depends_on=[]), "config", "does not run after 'deploy'"),
    "env deployed twice": (
        lambda t: t.insert(1, {**t[0], "id": "again"}),
        "config",
        "by several steps ('deploy', 'again')",
    ),
    "agent's env not deployed": (lambda t: t[2].update(env_ids=["other"]), "agent", "no env 'other'"),
    "wrong env_step_id": (lambda t: t[2].update(env_step_id="deploi"), "agent", "did you mean 'deploy'?"),
    "unknown service": (
        lambda t: t[1]["directives"][0].update(service="eko"),
        "config",
        "no service 'eko'; the env's name is 'echo'",
    ),
    "no agent": (lambda t: t.pop(2), None, "no step deploys the prompted agent"),
    "two agents": (
        lambda t: t.insert(3, {"id": "b", "type": "deploy_agent", "agent_name": "b"}),
        "b",
        "second played agent",
    ),
    "no prompt": (lambda t: t.pop(3), None, "no step prompts an agent"),
    "other agent prompted": (lambda t: t[3].update(agent_name="bob"), "ask", "no step deploys the agent 'bob'"),
    "agent not waited for": (lambda t: t[3].update(depends_on=[]), "ask", "does not run after 'agent'"),
    "prompts at one time": (
        lambda t: t.insert(4, {"id": "more", "type": "prompt_agent", "prompt": "x", "depends_on": ["agent"]}),
        "more",
        "may prompt at the same time as 'ask'",
    ),
    "two conversations": (
        lambda t: t.insert(4, {"id": "more", "type": "prompt_agent", "prompt": "x", "context_id": "b"}),
        "more",
        "one conversation",
    ),
    "same prompt_id": (
        lambda t: t.insert(4, {"id": "more", "type": "prompt_agent", "prompt": "x", "prompt_id": "p"}),
        "more",
        "'p' is also the prompt_id of the step 'ask'",
    ),
    "no score": (lambda t: t.pop(4), None, "no step records a score"),
    "unknown artifact": (lambda t: t[4].update(file_artifact_id="chek"), "grade", "did you mean 'check'?"),
    "unknown prompt": (lambda t: t[4].update(prompt_id="q"), "grade", "there is no prompt 'q'"),
    "prompt not waited for": (
        lambda t: t[4].update(prompt_id="p", depends_on=["deploy"]),
        "grade",
        "does not run after 'ask'",
    ),
    "unknown verifier": (
        lambda t: t.append({"id": "sum", "type": "aggregate_verifiers", "verifier_ids": ["grad"]}),
        "sum",
        "there is no verifier 'grad'; did you mean 'grade'?",
    ),
    "verifier names itself": (
        lambda t: t.append({"id": "sum", "type": "aggregate_verifiers", "verifier_ids": ["sum"]}),
        "sum",
        "names itself",
    ),
    "same verifier_id": (
        lambda t: t.append({**t[4], "id": "other", "verifier_id": "grade"}),
        "other",
        "'grade' is also the verifier_id of the step 'grade'",
    ),
    "unknown sandbox": (
        lambda t: t.append({"id": "l", "type": "load_artifact", "artifact_id": "check", "sandbox_name": "box"}),
        "l",
        "no step deploys the sandbox 'box'",
    ),
    "same sandbox twice": (
        lambda t: t.extend(
            {"id": name, "type": "deploy_sandbox", "sandbox_name": "box", "sandbox_mode": "vm"} for name in "ab"
        ),
        "b",
        "'box' is also the sandbox of the step 'a'",
    ),
    "image that is none": (
        lambda t: t.append(
            {"id": "b", "type": "deploy_sandbox", "sandbox_name": "b", "sandbox_mode": "vm", "image": "chec"}
        ),
        "b",
        "did you mean 'check'?",
    ),
    "artifact that is no image": (
        lambda t: t.append(
            {"id": "b", "type": "deploy_sandbox", "sandbox_name": "b", "sandbox_mode": "vm", "image": "check"}
        ),
        "b",
        "not docker_image",
    ),
    "unknown script": (
        lambda t: t.insert(
            3, {"id": "r", "type": "run_code", "script_artifact_id": "check", "script_file": "verifi.py"}
        ),
        "r",
        "did you mean 'verify.py'?",
    ),
}


@pytest.mark.parametrize("case", EDITS)
def test_a_wrong_task_is_refused_at_its_step(write: Any, steps: Any, case: str) -> None:
    edit, step, words = EDITS[case]

    found = problems(write, edited(steps, edit))

    right = [problem for problem in found if words in problem.message]
    assert right, [str(problem) for problem in found]
    assert {str(problem.path) for problem in found} == {"tasks/play.json"}
    assert right[0].step == step
    assert (right[0].line is None) == (step is None)


def test_the_line_is_that_of_the_field(write: Any) -> None:
    text = """[
  {"id": "deploy", "type": "deploy_env", "env_id": "echo"},
  {
    "id": "ask",
    "type": "prompt_agent",
    "prompt": "a \\" { \\\\ [ }",
    "timeout_seconds": "long",
    "promt_id": "x"
  }
]"""

    found = problems(write, text)

    assert {(problem.line, problem.step) for problem in found} == {(7, "ask"), (8, "ask")}


@pytest.mark.parametrize(
    ("text", "words", "line"),
    [
        ("[{]", "is not JSON", 1),
        ('[\n{"id": "a", "id": "b"}]', "has the key 'id' twice", None),
        ('[{"id": "a", "x": NaN}]', "holds NaN", None),
        ('[{"id": "a", "x": -Infinity}]', "holds -Infinity", None),
        ('[{"id": "a", "x": 1e999}]', "too large", None),
        ('[{"id": "\\ud800"}]', "surrogate", None),
        ("{}", "has to be a JSON list", 1),
        ("[]", "at least one step", 1),
        ("[\n1,\n{}\n]", "a step has to be a JSON object", 2),
        ("", "is not JSON", 1),
        (b"[\n\xff]", "is not UTF-8", 2),
        (b"\xef\xbb\xbf[]", "byte order mark", 1),
        ("[" * 100_000, "nested too deeply", None),
        ("[" + "1" * 5000 + "]", "is not JSON", None),
    ],
    ids=range(14),
)
def test_a_file_that_is_no_task_is_named(write: Any, text: Any, words: str, line: int | None) -> None:
    found = problems(write, text)

    assert words in found[0].message
    assert found[0].line == line


def test_a_task_that_cannot_be_played_does_not_stop_the_others(write: Any, steps: Any) -> None:
    wrong = edited(steps, lambda t: (t[3].update(type="rubrics_verifier"), t[0].update(cpu="x")))
    folder = write(
        {
            "tasks/bad.json": wrong,
            "tasks/other.json": steps(),
            "evals/mixed.toml": 'tasks = ["bad", "other"]',
            "evals/gone.toml": 'tasks = ["bad"]',
        }
    )

    bundle = load_bundle(folder)

    assert list(bundle.templates) == ["other", "play"]
    assert {(problem.task, problem.step) for problem in bundle.left_out} == {("bad", "ask"), ("bad", "deploy")}
    assert {name: len(split) for name, split in bundle.splits.items()} == {"all": 2, "mixed": 1}
    assert any("'gone'" in note.message for note in bundle.notes)


def test_fields_without_meaning_are_noted(write: Any, steps: Any) -> None:
    task = edited(steps, lambda t: t[3].update(model="big", harness="x", max_turns=3))

    bundle = load_bundle(write({"tasks/play.json": task}))

    assert {note.message.split("'")[1] for note in bundle.notes} == {"model", "harness", "max_turns"}
    assert all(note.step == "ask" and note.line for note in bundle.notes)


def test_two_deployments_of_one_env_are_told_apart_by_step(write: Any) -> None:
    task = [
        {"id": "one", "type": "deploy_env", "env_id": "echo"},
        {"id": "two", "type": "deploy_env", "env_id": "echo"},
        {"id": "load", "type": "load_artifact", "env_id": "echo", "env_step_id": "two", "artifact_id": "check"},
        {"id": "agent", "type": "deploy_agent", "env_step_id": "two"},
        {"id": "ask", "type": "prompt_agent", "prompt": "x"},
        {
            "id": "says",
            "type": "agent_prompt_response_verifier",
            "prompt_id": "ask",
            "criteria": [{"type": "response_contains", "needles": ["x"]}],
        },
    ]

    bundle = load_bundle(write({"tasks/play.json": task}))

    assert bundle.templates["play"].scoring_steps == ("says",)


def test_parallel_steps_and_several_turns_are_fine(write: Any) -> None:
    task: list[dict[str, Any]] = [
        {"id": "a", "type": "deploy_env", "env_id": "echo", "depends_on": []},
        {"id": "box", "type": "deploy_sandbox", "sandbox_name": "box", "sandbox_mode": "vm", "depends_on": []},
        {"id": "agent", "type": "deploy_agent", "env_ids": ["echo"], "depends_on": ["a"]},
        {"id": "first", "type": "prompt_agent", "prompt": "One", "depends_on": ["agent", "box"]},
        {"id": "second", "type": "prompt_agent", "prompt": "Two", "depends_on": [{"task_step_id": "first"}]},
        {
            "id": "g",
            "type": "env_outcome_verifier",
            "env_id": "echo",
            "file_artifact_id": "check",
            "prompt_id": "first",
        },
    ]

    bundle = load_bundle(write({"tasks/play.json": task}))

    assert bundle.entry("all", 0).prompt == "One"
    assert [step.depends_on for step in bundle.task("all", 0).steps] == [
        (),
        (),
        ("a",),
        ("agent", "box"),
        ("first",),
        None,
    ]


def test_the_first_prompt_is_that_of_the_graph(write: Any, steps: Any) -> None:
    task = steps()
    task[2]["system_prompt"] = "From the deploy."
    task[3] = {"id": "late", "type": "prompt_agent", "prompt": "Second", "depends_on": ["early"]}
    task.insert(4, {"id": "early", "type": "prompt_agent", "prompt": "First", "depends_on": ["agent"]})

    entry = load_bundle(write({"tasks/play.json": task})).entry("all", 0)

    assert (entry.prompt, entry.system_prompt) == ("First", "From the deploy.")


def test_large_tasks_are_checked_quickly(write: Any, steps: Any) -> None:
    task = steps()
    task[1:1] = [{"id": f"reset{n}", "type": "reset_env", "env_id": "echo"} for n in range(800)]

    assert len(load_bundle(write({"tasks/play.json": json.dumps(task)})).task("all", 0).steps) == 805
