"""Evals: names, globs and their order."""

from __future__ import annotations

import fnmatch
import json
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.bundle import load_bundle
from agent_env.bundle.evals import TaskNames
from agent_env.bundle.seeds import SeedFile
from agent_env.errors import BundleError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from pathlib import Path

GLOBS = st.lists(st.sampled_from([*"ab/-0*?", "[ab]", "[!a]", "day", "train-"]), min_size=1, max_size=6).map("".join)
KEYS = st.lists(st.sampled_from(["a", "b", "train-0", "train-1", "a-b", "ab0", "x/y"]), min_size=1, unique=True)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(GLOBS, KEYS, KEYS)
def test_globs_match_as_fnmatch_does(tmp_path: Path, pattern: str, day: list[str], ab: list[str]) -> None:
    tasks: dict[str, SeedFile | None] = {"a": None, "ba": None}
    names = [("a", 0, "a"), ("ba", 0, "ba")]
    for task, keys in (("day", day), ("ab", ab)):
        path = tmp_path / f"{task}.seeds.jsonl"
        path.write_text("".join(json.dumps({"id": key}) + "\n" for key in keys))
        tasks[task] = SeedFile(path, shown=path, task=task)
        names += [(task, number, f"{task}/{key}") for number, key in enumerate(keys)]
    expected = {(task, number) for task, number, name in names if fnmatch.fnmatchcase(name, pattern)}

    found = TaskNames(tasks, set()).match(pattern)

    if isinstance(found, str):
        assert not expected
        return
    assert {(segment.template, row) for segment in found for row in segment.rows} == expected


def test_splits_keep_the_order_of_their_evals(write: Any, steps: Any, lines: Any) -> None:
    rows = [{"id": f"{kind}-{n}"} for n in range(3) for kind in ("train", "eval")]
    folder = write(
        {
            "tasks/day.json": steps(),
            "tasks/day.seeds.jsonl": lines(rows),
            "evals/train.toml": 'tasks = ["play", "day/train-*"]\ntype = "eval"',
            "evals/test-set.toml": 'tasks = ["day/eval-2", "day/eval-0"]',
            "evals/eval.toml": 'tasks = ["day/*"]',
        }
    )

    bundle = load_bundle(folder)

    def names(split: str) -> list[str]:
        return [entry.name for entry in bundle.entries(split)]

    assert list(bundle.splits) == ["all", "eval", "test-set", "train"]
    assert [split.type for split in bundle.splits.values()] == ["train", "validation", "test", "train"]
    assert names("all") == [*(f"day/{row['id']}" for row in rows), "play"]
    assert names("train") == ["play", "day/train-0", "day/train-1", "day/train-2"]
    assert names("test-set") == ["day/eval-2", "day/eval-0"]
    assert names("eval") == [f"day/{row['id']}" for row in rows]
    for split in bundle.splits:
        assert [entry.index for entry in bundle.entries(split)] == list(range(len(bundle.splits[split])))
        assert [bundle.task(split, index).name for index in range(len(bundle.splits[split]))] == names(split)


@pytest.mark.parametrize(
    ("tasks", "words"),
    [
        (["day"], "write 'day/\\*' for all its tasks"),
        (["day/train-9"], "no line of the seeds of 'day' has the key 'train-9'"),
        (["day/x*"], "matches no task"),
        (["day/*", "day/train-0"], "a task stands once"),
        (["day/train-?", "day/*-0"], "a task stands once"),
        (["dai/*"], "matches no task; the bundle has: 'day/\\*', 'play'"),
    ],
)
def test_wrong_names_of_seeded_tasks(write: Any, steps: Any, lines: Any, tasks: list[str], words: str) -> None:
    folder = write(
        {
            "tasks/day.json": steps(),
            "tasks/day.seeds.jsonl": lines([{"id": "train-0"}, {"id": "eval-0"}]),
            "evals/e.toml": f"tasks = {json.dumps(tasks)}",
        }
    )

    with pytest.raises(BundleError, match=words):
        load_bundle(folder)
