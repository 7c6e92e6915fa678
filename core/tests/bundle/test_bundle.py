"""The bundle as the server uses it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from agent_env.bundle import load_bundle
from agent_env.errors import BundleError, Problem


def test_names_ids_and_description(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    folder: Path = write()

    monkeypatch.setattr(Path, "home", lambda: folder.parent)
    at_home = load_bundle(str(folder))
    monkeypatch.setattr(Path, "home", lambda: Path("/nowhere"))
    elsewhere = load_bundle(folder)

    assert (at_home.name, at_home.description, at_home.path) == ("demo", "A bundle for tests", folder)
    assert at_home.templates["play"].id == at_home.entry("all", 0).id == "@local/~/demo/play"
    assert at_home.env("echo").id == "@local/~/demo/echo"
    assert at_home.env("@local/~/demo/echo").name == "echo"
    assert elsewhere.task("all", 0).id == f"@local{folder}/play"


def test_a_task_and_its_entry(write: Any) -> None:
    bundle = load_bundle(write())

    entry, task = bundle.entry("all", 0), bundle.task("all", 0)

    assert (entry.name, entry.index, entry.split, entry.template) == ("play", 0, "all", "play")
    assert (entry.prompt, entry.system_prompt) == ("Say hello.", "Be brief.")
    assert (task.id, task.name, task.split, task.index) == (entry.id, "play", "all", 0)
    assert [step.id for step in task.steps] == ["deploy", "config", "agent", "ask", "grade"]
    assert task.scoring_steps == bundle.templates["play"].scoring_steps == ("grade",)
    assert task.toolset == entry.toolset
    assert task.steps == bundle.templates["play"].steps


def test_wrong_splits_and_indexes(write: Any) -> None:
    bundle = load_bundle(write({"evals/train.toml": 'tasks = ["play"]'}))

    with pytest.raises(BundleError, match=r"no split 'trian'; did you mean 'train'\?; splits: 'all', 'train'"):
        bundle.entry("trian", 0)
    with pytest.raises(BundleError, match="no split"):
        bundle.entries("x")
    with pytest.raises(IndexError, match="'train' has 1 tasks; there is no index 1"):
        bundle.task("train", 1)
    for read in (bundle.entry, bundle.task):
        with pytest.raises(IndexError):
            read("train", -1)
    with pytest.raises(IndexError):
        bundle.entries("train", -1)


def test_parts_of_a_split(write: Any, steps: Any, lines: Any) -> None:
    folder = write(
        {
            "tasks/a.json": steps(),
            "tasks/a.seeds.jsonl": lines([{"id": f"k{n}"} for n in range(4)]),
            "tasks/z.json": steps(),
        }
    )
    bundle = load_bundle(folder)
    everything = list(bundle.entries("all"))

    assert [entry.name for entry in everything] == ["a/k0", "a/k1", "a/k2", "a/k3", "play", "z"]
    for start in range(8):
        for stop in [*range(8), None]:
            assert list(bundle.entries("all", start, stop)) == everything[start:stop]


def test_leaving_out_tasks(write: Any, steps: Any) -> None:
    bundle = load_bundle(write({"tasks/other.json": steps(), "evals/e.toml": 'tasks = ["other"]'}))
    problem = Problem(Path("tasks/other.json"), "the reward does not fit", task="other")

    rest = bundle.leave_out([problem])

    assert list(rest.templates) == ["play"]
    assert {name: len(split) for name, split in rest.splits.items()} == {"all": 1}
    assert rest.left_out == (problem,)
    assert problem in rest.problems
    assert list(bundle.templates) == ["other", "play"]
    assert bundle.left_out == ()


@pytest.mark.parametrize(
    ("readme", "text"),
    [
        ("# Title\n\nMore", "Title"),
        ("---\ntitle: x\n---\n\nText here\n", "Text here"),
        ("<p align='center'>\n<img src='x'>\n</p>\n\n[![badge](x)](y)\n![pic](z)\n\nThe text\n", "The text"),
        ("<!-- a\ncomment -->\n[link]: x\nText\r\n", "Text"),
        ("", ""),
    ],
)
def test_the_description_is_the_first_text_of_the_readme(write: Any, readme: str, text: str) -> None:
    assert load_bundle(write({"README.md": readme})).description == text


def test_a_readme_may_be_spelled_in_small_letters(write: Any) -> None:
    assert load_bundle(write({"README.md": None, "readme.md": "Text"})).description == "Text"
    assert load_bundle(write({"README.md": None}, name="without")).description == ""


def test_reading_a_bundle_loads_neither_plugins_nor_a_server(write: Any) -> None:
    code = (
        "import sys; from agent_env.bundle import load_bundle; load_bundle(sys.argv[1]); "
        "print([name for name in ('fastapi', 'httpx', 'uvicorn', 'websockets', 'rich', 'agent_env.registry', "
        "'agent_env.episode') if name in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", code, str(write())], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
