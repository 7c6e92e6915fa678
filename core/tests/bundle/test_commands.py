"""`agentenv bundle check`, `list` and `new`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.bundle import load_bundle
from agent_env.bundle.check import check_bundle
from agent_env.cli.bundle_check import command as check
from agent_env.cli.bundle_list import command as list_
from agent_env.cli.bundle_new import command as new
from agent_env.cli.main import run
from click.testing import CliRunner, Result

if TYPE_CHECKING:
    from pathlib import Path

    import click


def invoke(command: click.Command, *arguments: object) -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in arguments], catch_exceptions=False)


def test_check_of_a_good_bundle(write: Any) -> None:
    done = invoke(check, write())

    assert done.exit_code == 0
    assert done.output == "demo: no problems; 1 task can be served\n"


def test_check_shows_problems_of_tasks_rows_and_entities_and_notes(write: Any, steps: Any, lines: Any) -> None:
    seeded = steps()
    seeded[3].update(prompt="<a>", model="x")
    bad = steps()
    bad[3]["type"] = "promt_agent"
    folder = write(
        {
            "tasks/day.json": seeded,
            "tasks/day.seeds.jsonl": lines([{"a": "x"}, {"b": "x"}]),
            "tasks/bad.json": bad,
            "envs/spare/env.toml": "typ = 1",
        }
    )

    done = invoke(check, folder)
    report = json.loads(invoke(check, folder, "--json").output)

    assert done.exit_code == 1
    assert "problem: tasks/day.seeds.jsonl:2: lacks the field 'a'" in done.output
    assert "problem: tasks/bad.json:30: step 'ask': unknown step type 'promt_agent'; did you mean" in done.output
    assert "problem: envs/spare/env.toml:1: unknown key 'typ'; did you mean 'type'?" in done.output
    assert "note: tasks/day.json:34: step 'ask': field 'model' is accepted" in done.output
    assert done.output.endswith("problems, 1 note; 2 tasks can be served\n")
    assert {problem["path"] for problem in report["problems"]} == {
        "tasks/day.seeds.jsonl",
        "tasks/bad.json",
        "envs/spare/env.toml",
    }
    assert report["served"] == 2
    assert report["problems"][0].keys() == {"path", "line", "task", "step", "message"}
    assert "portable" not in report


def test_check_of_a_bundle_that_cannot_be_read(write: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write({"bundle.toml": ""})
    (tmp_path / "empty").mkdir()

    done = invoke(check, folder)

    assert done.exit_code == 1
    assert "problem: bundle.toml: this name is reserved" in done.output
    assert run(["bundle", "check", str(tmp_path / "empty")]) == 1
    assert "is no bundle" in capsys.readouterr().err
    assert run(["bundle", "list", str(folder)]) == 1
    assert "this name is reserved" in capsys.readouterr().err


def test_many_wrong_rows_are_counted(write: Any, steps: Any, lines: Any) -> None:
    task = steps()
    task[3]["prompt"] = "<a>"
    folder = write({"tasks/day.json": task, "tasks/day.seeds.jsonl": lines([{"a": "x"}, *[{"b": 1}] * 50])})

    problems = check_bundle(folder).problems

    assert len(problems) == 21
    assert problems[-1].message == "30 more lines have problems"


def test_what_is_not_portable(write: Any, steps: Any, lines: Any) -> None:
    task = steps()
    task[1]["directives"][0]["args"]["seed"] = "<seed>"
    task[3].pop("prompt_id")
    task[4]["prompt_id"] = "ask"
    task.append({"id": "sum", "type": "aggregate_verifiers", "verifier_ids": ["grade"]})
    folder = write(
        {
            "tasks/lucky.json": task,
            "tasks/day.json": steps(),
            "tasks/day.seeds.jsonl": lines([{"id": "x"}]),
            "evals/e.toml": 'tasks = ["day/*", "play"]',
            "envs/bare/agentenv.toml": '[process]\ncommand = ["x"]',
        },
        name="odd#name",
    )

    done = invoke(check, folder, "--portable")
    report = json.loads(invoke(check, folder, "--portable", "--json").output)

    assert done.exit_code == 0
    said = "\n".join(problem["message"] for problem in report["portable"])
    for words in (
        "'odd#name'",
        "is an extension",
        "<seed> is filled only",
        "verifier 'grade' is named by its step's id",
        "prompt 'ask' is named by its step's id",
        "'day/*' is no name of a task file",
        "has no 'environment_name' that other readers find",
        "only agentenv.toml says how to start it",
    ):
        assert words in said
    assert "'play'" not in said
    assert "find nothing here that they refuse" in invoke(check, write(name="fine"), "--portable").output


def test_list(write: Any, steps: Any, lines: Any) -> None:
    other = steps()
    other[0]["cpu"] = 2
    bad = steps()
    bad.pop(3)
    folder = write(
        {
            "tasks/other.json": other,
            "tasks/day.json": steps(),
            "tasks/day.seeds.jsonl": lines([{"id": "x"}, {"id": "y"}]),
            "tasks/bad.json": bad,
            "evals/train.toml": 'tasks = ["day/*"]',
        }
    )

    done = invoke(list_, folder)
    report = json.loads(invoke(list_, folder, "--json").output)

    assert done.exit_code == 0
    assert "day/*" in done.output
    assert "left out: tasks/bad.json: no step prompts an agent" in done.output
    bundle = load_bundle(folder)
    assert report["name"] == "demo"
    assert report["description"] == "A bundle for tests"
    assert report["splits"] == [
        {"name": "all", "type": "train", "tasks": 4},
        {"name": "train", "type": "train", "tasks": 2},
    ]
    assert [(task["name"], task["tasks"], task["seeded"], task["scores"]) for task in report["tasks"]] == [
        ("day", 2, True, ["grade"]),
        ("other", 1, False, ["grade"]),
        ("play", 1, False, ["grade"]),
    ]
    assert report["toolsets"] == [
        {"toolset": bundle.templates["day"].toolset, "templates": ["day", "play"]},
        {"toolset": bundle.templates["other"].toolset, "templates": ["other"]},
    ]
    assert [problem["task"] for problem in report["left_out"]] == ["bad"]


def test_new_writes_a_bundle_without_problems(tmp_path: Path) -> None:
    folder = tmp_path / "my bundle"

    done = invoke(new, folder)

    assert done.exit_code == 0
    result = check_bundle(folder)
    assert (result.problems, result.notes, result.served) == ((), (), 48)
    bundle = load_bundle(folder)
    assert {name: len(split) for name, split in bundle.splits.items()} == {"all": 48, "eval": 8, "train": 40}
    assert bundle.description == "my bundle: turn one number into another"
    assert "__NAME__" not in "".join(path.read_text() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("name", ["a:b", "x/ "])
def test_new_refuses_names_that_no_bundle_has(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bundle", "new", str(tmp_path / name)]) == 2

    assert "cannot have this name" in capsys.readouterr().err


def test_new_does_not_write_over_anything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "x").write_text("mine")
    (tmp_path / "file").write_text("mine")

    for name in ("taken", "file", "file/inside"):
        assert run(["bundle", "new", str(tmp_path / name)]) == 2
        assert "error:" in capsys.readouterr().err
    assert (tmp_path / "taken" / "x").read_text() == (tmp_path / "file").read_text() == "mine"
    assert list((tmp_path / "taken").iterdir()) == [tmp_path / "taken" / "x"]


def test_new_with_policies_that_solve_every_task(tmp_path: Path) -> None:
    from agent_env.testing.policies import load_policy

    invoke(new, tmp_path / "mine")
    bundle = load_bundle(tmp_path / "mine")
    solve, plod = (load_policy(bundle.path, name) for name in ("solve", "plod"))

    for entry in bundle.entries("all"):
        messages = [{"role": "user", "content": entry.prompt}]
        start, target = (int(word) for word in entry.prompt.replace(".", " ").split() if word.isdigit())
        moves = {}
        for policy in (solve, plod):
            value = start
            calls = policy(messages, [])["tool_calls"]
            for call in calls:
                value = value * 2 if call["function"]["name"] == "double" else value + 1
            assert value == target
            moves[policy] = len(calls)
        assert moves[solve] <= moves[plod]
