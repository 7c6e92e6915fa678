"""The folder as a bundle: every day is a task of the right split, with the day in its load step and its prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from agent_env.bundle import load_bundle

if TYPE_CHECKING:
    from pathlib import Path

    from agent_env.bundle import Bundle


@pytest.fixture(scope="module")
def bundle(bundle_path: Path) -> Bundle:
    return load_bundle(bundle_path)


def test_the_bundle_has_no_problem(bundle: Bundle) -> None:
    assert bundle.left_out == ()
    assert bundle.notes == ()
    assert bundle.name == "gridsim"
    assert bundle.description == "GridSim: a grid battery for one day in a day-ahead electricity market"


def test_splits(bundle: Bundle) -> None:
    assert {name: len(split) for name, split in bundle.splits.items()} == {"all": 2200, "train": 2000, "eval": 200}


@pytest.mark.parametrize(("split", "index", "number"), [("train", 0, 0), ("train", 1999, 1999), ("eval", 7, 2007)])
def test_a_row_is_a_task(bundle: Bundle, rows: list[dict[str, Any]], split: str, index: int, number: int) -> None:
    entry = bundle.entry(split, index)
    row = rows[number]
    assert entry.name == f"day/{row['id']}"
    assert row["situation"] in entry.prompt
    assert entry.system_prompt is not None
    assert "<" not in entry.prompt + entry.system_prompt

    task = bundle.task(split, index)
    assert [step.id for step in task.steps] == ["deploy", "load", "agent", "ask", "grade"]
    assert task.scoring_steps == ("grade",)
    load = task.steps[1].model_dump()
    assert load["directives"][0]["args"]["day"] == row["day"]


def test_all_tasks_share_one_toolset(bundle: Bundle) -> None:
    assert len({entry.toolset for entry in bundle.entries("all")}) == 1
