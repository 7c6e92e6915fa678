"""The folders of a bundle: every rule, all problems at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from agent_env.bundle import load_bundle
from agent_env.errors import BundleError

VERIFY = "def verify(url):\n    return []\n"

WRONG: dict[str, tuple[dict[str, object], str, str]] = {
    "reserved manifest": ({"bundle.toml": ""}, "bundle.toml", "reserved"),
    "kind in capitals": ({"Skills/a/SKILL.md": "x"}, "Skills", "did you mean 'skills'"),
    "aliases in capitals": ({"Aliases.toml": ""}, "Aliases.toml", "did you mean 'aliases.toml'"),
    "kind is a file": ({"skills": "text"}, "skills", "has to be a folder"),
    "task is a folder": ({"tasks/deep/x.json": "[]"}, "tasks/deep", "is a folder"),
    "eval is a folder": ({"evals/deep/x.toml": ""}, "evals/deep", "is a folder"),
    "suffix in capitals": ({"tasks/other.JSON": "[]"}, "tasks/other.JSON", "'.json'"),
    "eval suffix in capitals": ({"evals/other.TOML": ""}, "evals/other.TOML", "'.toml'"),
    "two tasks of one folded name": ({"tasks/Play.json": "[]"}, "tasks/play.json", "one name on some file systems"),
    "two artifacts of one folded name": (
        {"artifacts/straße/verify.py": VERIFY, "artifacts/STRASSE/verify.py": VERIFY},
        "artifacts/straße",
        "one name on some file systems",
    ),
    "reserved artifact name": ({"artifacts/a__b/verify.py": VERIFY}, "artifacts/a__b", "'__'"),
    "reserved skill name": ({"skills/a__b/SKILL.md": "x"}, "skills/a__b", "'__'"),
    "artifact and skill share a name": ({"skills/check/SKILL.md": "x"}, "skills/check", "share one store"),
    "name with a colon": ({"tasks/a:b.json": "[]"}, "tasks/a:b.json", "':'"),
    "name that begins with a space": ({"artifacts/ a/verify.py": VERIFY}, "artifacts/ a", "space"),
    "seeds without a task": ({"tasks/plai.seeds.jsonl": "{}\n"}, "tasks/plai.seeds.jsonl", "has no task"),
    "seeds in the singular": ({"tasks/play.seed.jsonl": "{}\n"}, "tasks/play.seed.jsonl", "<task>.seeds.jsonl"),
    "seeds in capitals": ({"tasks/play.Seeds.jsonl": "{}\n"}, "tasks/play.Seeds.jsonl", "<task>.seeds.jsonl"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_entry_is_named(write: Any, case: str) -> None:
    files, path, words = WRONG[case]

    with pytest.raises(BundleError) as caught:
        load_bundle(write(files))

    assert [problem for problem in caught.value.problems if str(problem.path) == path and words in problem.message]


def test_all_wrong_entries_are_reported_together(write: Any) -> None:
    together = {
        path: content
        for case, (files, _, _) in WRONG.items()
        if case not in {"kind in capitals", "kind is a file"}
        for path, content in files.items()
    }

    with pytest.raises(BundleError) as caught:
        load_bundle(write(together))

    found = {str(problem.path) for problem in caught.value.problems}
    expected = {path for case, (_, path, _) in WRONG.items() if case not in {"kind in capitals", "kind is a file"}}
    assert expected <= found
    assert all(f"  {problem}" in str(caught.value) for problem in caught.value.problems)


def test_what_is_no_entry_is_ignored(write: Any) -> None:
    folder = write(
        {
            ".hidden/x": "x",
            "build/x": "x",
            "notes.txt": "x",
            "envs/stray.txt": "x",
            "artifacts/.cache/x": "x",
            "artifacts/__pycache__/x.pyc": "x",
            "artifacts/check/__pycache__/verify.pyc": "x",
            "tasks/notes.md": "x",
            "tasks/.draft.json": "not JSON",
            "evals/readme.txt": "x",
        }
    )

    bundle = load_bundle(folder)

    assert list(bundle.templates) == ["play"]
    assert not bundle.problems
    assert bundle.artifacts["check"].type == "file"


@pytest.mark.parametrize("where", ["envs/gone", "artifacts/gone", "tasks/gone.json", "evals/gone.toml", "skills"])
def test_a_broken_link_is_named(write: Any, where: str) -> None:
    folder: Path = write({"evals/e.toml": 'tasks = ["play"]'})
    (folder / where).symlink_to(folder / "nowhere")

    with pytest.raises(BundleError, match="broken link"):
        load_bundle(folder)


def test_a_broken_link_inside_an_artifact_leaves_out_its_tasks(write: Any, steps: Any) -> None:
    folder: Path = write({"artifacts/other/verify.py": VERIFY, "tasks/fine.json": [*steps()[:4], _grade("other")]})
    (folder / "artifacts/check/data.txt").symlink_to(folder / "nowhere")

    bundle = load_bundle(folder)

    assert list(bundle.templates) == ["fine"]
    assert {problem.task for problem in bundle.left_out} == {"play"}
    assert any("broken link" in problem.message for problem in bundle.problems)


def _grade(artifact: str) -> dict[str, object]:
    return {"id": "grade", "type": "env_outcome_verifier", "env_id": "echo", "file_artifact_id": artifact}


def test_what_is_no_bundle_says_why(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "src").mkdir()

    for name, words in (
        ("missing", "cannot be read"),
        ("file", "is a file"),
        ("empty", "is no bundle.*is empty"),
        ("other", "is no bundle.*src"),
    ):
        with pytest.raises(BundleError, match=words):
            load_bundle(tmp_path / name)


def test_a_bundle_without_tasks_is_refused(write: Any) -> None:
    with pytest.raises(BundleError, match=r"no task: there is no file tasks/<name>\.json"):
        load_bundle(write({"tasks/play.json": None}))


def test_what_is_no_regular_file_is_not_opened(write: Any) -> None:
    folder: Path = write({"envs/odd/Dockerfile": "FROM scratch", "envs/odd/env.toml/x": ""})
    os.mkfifo(folder / "tasks/pipe.json")

    with pytest.raises(BundleError) as caught:
        load_bundle(folder)

    said = {str(problem.path): problem.message for problem in caught.value.problems}
    assert said == {"tasks/pipe.json": "is no regular file", "envs/odd/env.toml": "is no file"}


def test_names_that_are_no_text_are_reported_as_json(write: Any) -> None:
    folder: Path = write()
    Path(os.fsdecode(os.fsencode(folder / "tasks") + b"/\xff.json")).write_text("[]")

    done = subprocess.run(
        [Path(sys.executable).with_name("agentenv"), "bundle", "check", "--json", folder],
        capture_output=True,
        check=False,
    )

    assert done.returncode == 1
    assert {problem["path"] for problem in json.loads(done.stdout)["problems"]} == {"tasks/\ufffd.json"}


def test_links_that_lead_in_circles_end(write: Any) -> None:
    folder: Path = write({"artifacts/many/a.txt": "a", "artifacts/many/deep/b.txt": "b"})
    (folder / "artifacts/many/deep/up").symlink_to(folder / "artifacts/many")
    (folder / "outside").mkdir()
    (folder / "outside/c.txt").write_text("c")
    (folder / "artifacts/many/linked").symlink_to(folder / "outside")

    files = load_bundle(folder).artifacts["many"].files

    assert [file.name for file in files] == ["a.txt", "b.txt", "c.txt"]
