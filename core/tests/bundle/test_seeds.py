"""Seed files: an index that reads lines when they are asked for, and says what is wrong with which line."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.bundle import load_bundle
from agent_env.bundle.check import check_bundle
from agent_env.bundle.seeds import SeedFile
from agent_env.errors import BundleError, UsageError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from agent_env.errors import Problem

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3), max_leaves=6
)
IDS = st.text(st.characters(codec="utf-8", exclude_characters="*?[]"), min_size=1).filter(
    lambda text: text.isprintable() and text == text.strip()
)
ROWS = st.dictionaries(st.text(st.characters(codec="utf-8")), VALUES, max_size=4)
BLANK = st.sampled_from(["", " ", "\t", "\r"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_the_index_equals_a_naive_reading(tmp_path: Path, data: st.DataObject) -> None:
    rows: list[dict[str, Any]] = data.draw(st.lists(ROWS, min_size=1, max_size=8))
    for row in rows:
        if data.draw(st.booleans()):
            row["id"] = data.draw(IDS | st.integers())
        elif "id" in row:
            del row["id"]
        if data.draw(st.booleans()):  # the id first, as most files have it
            row.update({"id": row.pop("id")} if "id" in row else {})
    texts: list[str] = []
    for row in rows:
        texts += data.draw(st.lists(BLANK, max_size=2))
        ordered = dict(sorted(row.items(), key=lambda item: item[0] != "id"))
        texts.append(
            data.draw(st.sampled_from(["", "  "])) + json.dumps(ordered, ensure_ascii=data.draw(st.booleans()))
        )
    ending = data.draw(st.sampled_from(["\n", "\r\n"]))
    raw = ending.join(texts) + data.draw(st.sampled_from(["", ending]))
    path = tmp_path / "x.seeds.jsonl"
    path.write_bytes(raw.encode(errors="surrogatepass"))
    naive = [(number, json.loads(line)) for number, line in enumerate(raw.split("\n")) if line.strip(" \t\r")]

    seeds = SeedFile(path, shown=Path("x"), task="x")

    assert len(seeds) == len(naive)
    assert [seeds.row(index) for index in range(len(seeds))] == [row for _, row in naive]
    assert [row for _, row in seeds.rows(range(len(seeds)))] == [row for _, row in naive]
    assert [seeds.line(index) for index in range(len(seeds))] == [number + 1 for number, _ in naive]
    keys = [str(row.get("id", number)) for number, row in naive]
    assert list(seeds.keys()) == keys
    assert [seeds.key(index, seeds.row(index)) for index in range(len(seeds))] == keys
    repeated = seeds.repeated_key()
    assert (repeated is None) == (len(set(keys)) == len(keys))
    if repeated is not None:
        key, first, second = repeated
        assert keys[[n + 1 for n, _ in naive].index(first)] == keys[[n + 1 for n, _ in naive].index(second)] == key


def seeded(steps: Any, **fields: Any) -> list[dict[str, Any]]:
    task: list[dict[str, Any]] = steps()
    task[3].update(fields)
    return task


def left_out(write: Any, files: dict[str, object]) -> list[Problem]:
    with pytest.raises(BundleError) as caught:
        load_bundle(write(files))
    return list(caught.value.problems)


def test_rows_become_tasks(write: Any, steps: Any, lines: Any) -> None:
    task = seeded(steps, prompt="Day <day> of <think>", system_prompt="<who>")
    task[1]["directives"][0]["args"] = {"prices": "<prices>", "text": "p=<prices>", "flag": "<flag>"}
    rows: list[dict[str, Any]] = [
        {"id": "a-1", "day": "Monday", "prices": [1, 2.5], "who": "You.", "flag": True},
        {"day": 2, "prices": [], "who": "Me.", "flag": None},
        {"id": 7, "day": 3, "prices": [3], "who": "He.", "flag": False, "unused": 1},
    ]
    folder = write({"tasks/day.json": task, "tasks/day.seeds.jsonl": lines(rows), "tasks/play.json": None})

    bundle = load_bundle(folder)

    template = bundle.templates["day"]
    assert (template.seeded, template.size) == (True, 3)
    assert template.placeholders == {"day", "prices", "who", "flag"}
    entries = list(bundle.entries("all"))
    assert [entry.name for entry in entries] == ["day/a-1", "day/1", "day/7"]
    assert [entry.id for entry in entries] == [f"{template.id}/{key}" for key in ("a-1", "1", "7")]
    assert [entry.prompt for entry in entries] == ["Day Monday of <think>", "Day 2 of <think>", "Day 3 of <think>"]
    assert [entry.system_prompt for entry in entries] == ["You.", "Me.", "He."]
    played = bundle.task("all", 0)
    assert played.steps[1].directives[0].args == {"prices": [1, 2.5], "text": "p=[1, 2.5]", "flag": True}  # type: ignore[attr-defined]
    assert played.steps[0] is bundle.task("all", 1).steps[0]
    assert not check_bundle(folder).problems


def test_a_line_that_lacks_a_key_is_an_error_with_file_and_line(write: Any, steps: Any, lines: Any) -> None:
    task = seeded(steps, prompt="<a> <b>")
    rows = [{"a": 1, "b": 2}, {"a": 1, "b": 2}, {"a": 3}]
    folder = write({"tasks/day.json": task, "tasks/day.seeds.jsonl": lines(rows)})

    bundle = load_bundle(folder)

    for read in (lambda: bundle.task("all", 2), lambda: bundle.entry("all", 2), lambda: list(bundle.entries("all"))):
        with pytest.raises(BundleError, match=r"tasks/day\.seeds\.jsonl:3: lacks the field 'b'"):
            read()
    assert bundle.task("all", 1).name == "day/1"
    result = check_bundle(folder)
    assert [(str(problem.path), problem.line) for problem in result.problems] == [("tasks/day.seeds.jsonl", 3)]


@pytest.mark.parametrize("place", [0, 1, 4])
@pytest.mark.parametrize("key", ["target", "zi\u00ebl", 'a "b"'])
def test_a_placeholder_that_any_line_fills_is_one_in_all(
    write: Any, steps: Any, lines: Any, key: str, place: int
) -> None:
    rows: list[dict[str, Any]] = [{"a": n, key: f"<{n}>"} for n in range(5)]
    del rows[place][key]
    folder = write({"tasks/day.json": seeded(steps, prompt=f"<a> <{key}>"), "tasks/day.seeds.jsonl": lines(rows)})

    bundle = load_bundle(folder)

    assert bundle.templates["day"].placeholders == {"a", key}
    with pytest.raises(BundleError, match=rf"day\.seeds\.jsonl:{place + 1}: lacks the field"):
        bundle.task("all", place)
    for other in set(range(5)) - {place}:
        assert bundle.task("all", other).steps[3].prompt == f"{other} <{other}>"  # type: ignore[attr-defined]
    result = check_bundle(folder)
    assert [problem.line for problem in result.problems] == [place + 1]
    assert result.served == len(bundle.splits["all"]) - 1


def test_a_word_that_no_line_fills_is_noted_once(write: Any, steps: Any, lines: Any) -> None:
    task = seeded(steps, prompt="<targte> and <targte>: <b>bold</b>, <think>, 1 <2> <a>", system_prompt="<targte>")
    rows = [{"a": 1}, {"a": 2, "target": {"targte": 3}}]
    folder = write({"tasks/day.json": task, "tasks/day.seeds.jsonl": lines(rows), "tasks/play.json": task})

    notes = [note for note in load_bundle(folder).notes if note.task == "day"]

    assert [note.message for note in notes] == [
        "<targte> stays as it is: no line of the seeds has a field 'targte'",
        "<think> stays as it is: no line of the seeds has a field 'think'",
    ]


def test_the_nearest_field_is_named(write: Any, steps: Any, lines: Any) -> None:
    task = seeded(steps, prompt="<targte>")
    folder = write({"tasks/day.json": task, "tasks/day.seeds.jsonl": lines([{"target": 1}])})

    notes = [note for note in load_bundle(folder).notes if note.task == "day"]

    assert [note.step for note in notes] == ["ask"]
    assert notes[0].message.endswith("has a field 'targte'; did you mean 'target'?")


@pytest.mark.parametrize(
    ("evals", "seeds"),
    [
        ('tasks = ["day/*", "nothing*"]', '{"id": "x", "a": 1}\n{"id": "y"}\n{"id": "z", "a": 1\n'),
        ('tasks = ["play"]', '{"id": "x", "a": 1}\n{"id": "y"}\n{"id": "z", "a": 1\n{"id": "x", "a": 2}\n'),
        ('tasks = ["play"]', '{"id": "x" "a": 1}\n{"id": "y"}\n{"id": "z", "a": 1\n{"id": "w", "a": 2}\n'),
    ],
    ids=["eval", "duplicate", "first line"],
)
@pytest.mark.parametrize("broken_step", [False, True])
def test_no_problem_of_a_seed_file_hides_another(
    write: Any, steps: Any, evals: str, seeds: str, broken_step: bool
) -> None:
    task = seeded(steps, prompt="<a>")
    if broken_step:
        task[1]["colour"] = "red"
    result = check_bundle(write({"tasks/day.json": task, "tasks/day.seeds.jsonl": seeds, "evals/e.toml": evals}))

    of_rows = {problem.line for problem in result.problems if problem.path.name == "day.seeds.jsonl"}
    text = "\n".join(map(str, result.problems))
    assert 3 in of_rows
    if '"x" "a"' in seeds:
        assert of_rows == {1, 3}
    else:
        assert of_rows == ({2, 3, 4} if seeds.count("\n") == 4 else {2, 3})
        assert "lacks the field 'a'" in text
    assert ("nothing*" in text) == ("nothing" in evals)
    assert ("unknown field 'colour'" in text) == broken_step
    assert len(result.problems) == len({str(problem) for problem in result.problems})


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"a": 5}, "step 'ask': field 'prompt': expected a string, not 5"),
        ({"a": ""}, "field 'prompt'"),
        ({"a": "x", "env": "y"}, None),
        ({"a": "x", "id": "a*"}, r"holds \* \? \[ \]"),
        ({"a": "x", "id": ""}, "is empty"),
        ({"a": "x", "id": [1]}, "has to be a string or a whole number"),
        ({"a": "x", "id": True}, "has to be a string or a whole number"),
        ("[1]", "is not a JSON object"),
        ('{"a": "x"', "is not JSON"),
        ('{"a": "x", "a": "y"}', "has the key 'a' twice"),
        ('{"a": NaN}', "holds NaN"),
        ('{"a": "\\udc00"}', "surrogate"),
        (b'{"a": "\xff"}', "is not UTF-8"),
    ],
)
def test_a_wrong_row_is_refused_when_it_is_read(write: Any, steps: Any, row: Any, words: str | None) -> None:
    text = row if isinstance(row, bytes) else row.encode() if isinstance(row, str) else json.dumps(row).encode()
    raw = b'{"a": "fine"}\n' + text + b"\n"
    folder = write({"tasks/day.json": seeded(steps, prompt="<a>"), "tasks/day.seeds.jsonl": raw})

    bundle = load_bundle(folder)

    assert bundle.entry("all", 0).prompt == "fine"
    if words is None:
        assert bundle.task("all", 1).name == "day/1"
        return
    with pytest.raises(BundleError, match=words) as caught:
        bundle.task("all", 1)
    assert caught.value.problems[0].line == 2
    assert [problem.line for problem in check_bundle(folder).problems] == [2]


def test_references_of_a_row_are_checked(write: Any, steps: Any, lines: Any) -> None:
    task = steps()
    task[4]["file_artifact_id"] = "<judge>"
    rows = [{"judge": "check"}, {"judge": "chek"}]
    folder = write({"tasks/day.json": task, "tasks/day.seeds.jsonl": lines(rows)})

    with pytest.raises(BundleError, match="did you mean 'check'"):
        load_bundle(folder).task("all", 1)


@pytest.mark.parametrize("field", ["env_id", "id", "type", "depends_on"])
def test_fields_that_tie_steps_together_take_no_placeholder(write: Any, steps: Any, lines: Any, field: str) -> None:
    task = steps()
    task[0][field] = ["<a>"] if field == "depends_on" else "<a>"

    found = left_out(write, {"tasks/play.json": task, "tasks/play.seeds.jsonl": lines([{"a": "echo"}])})

    assert any("cannot hold a placeholder" in p.message or "unknown step type" in p.message for p in found)


@pytest.mark.parametrize(
    ("raw", "words", "line"),
    [
        ("", "is empty", None),
        ("\n \n", "is empty", None),
        ("[]\n", "is not a JSON object", 1),
        ('{"id": "x"}\n{"id": "y"}\n{"a": 1, "id": "x"}\n', "also that of line 1", 3),
        ('{"id": 1}\n{"a": 1}\n', "also that of line 1", 2),
    ],
)
def test_a_seed_file_that_cannot_be_used_leaves_its_task_out(
    write: Any, steps: Any, raw: str, words: str, line: int | None
) -> None:
    folder = write(
        {"tasks/day.json": steps(), "tasks/day.seeds.jsonl": raw, "evals/e.toml": 'tasks = ["day/*", "play"]'}
    )

    bundle = load_bundle(folder)

    assert list(bundle.templates) == ["play"]
    assert [(problem.task, problem.line) for problem in bundle.left_out] == [("day", line)]
    assert words in bundle.left_out[0].message
    assert len(bundle.splits["e"]) == 1


def test_a_file_that_changed_is_not_read_wrongly(write: Any, steps: Any, lines: Any) -> None:
    folder = write({"tasks/day.json": seeded(steps, prompt="<a>"), "tasks/day.seeds.jsonl": lines([{"a": "x"}] * 3)})
    bundle = load_bundle(folder)
    file = folder / "tasks/day.seeds.jsonl"

    file.write_text(lines([{"a": "longer"}] * 3))

    with pytest.raises(BundleError, match="changed after the bundle was loaded"):
        bundle.task("all", 1)
    file.unlink()
    with pytest.raises(BundleError, match="cannot be read"):
        bundle.entry("all", 1)


def test_the_seed_of_reset(write: Any, steps: Any, lines: Any) -> None:
    task = seeded(steps)
    task[1]["directives"][0]["args"] = {"seed": "<seed>", "name": "game <seed>"}
    folder = write({"tasks/lucky.json": task, "tasks/both.json": task, "tasks/both.seeds.jsonl": lines([{"id": "r"}])})
    bundle = load_bundle(folder)

    for index in (0, 1):
        args = bundle.task("all", index, seed=0).steps[1].directives[0].args  # type: ignore[attr-defined]
        assert args == {"seed": 0, "name": "game 0"}
        with pytest.raises(UsageError, match="uses <seed>: give a seed"):
            bundle.task("all", index)
    with pytest.raises(UsageError, match="no placeholder <seed>"):
        bundle.task("all", 2, seed=0)


def test_a_seed_that_does_not_fit_names_the_task(write: Any, steps: Any) -> None:
    bundle = load_bundle(write({"tasks/play.json": seeded(steps, timeout_seconds="<seed>")}))

    assert bundle.task("all", 0, seed=5).steps[3].timeout_seconds == 5  # type: ignore[attr-defined]
    with pytest.raises(BundleError, match=r"tasks/play\.json: step 'ask': field 'timeout_seconds'"):
        bundle.task("all", 0, seed=-5)


def test_a_field_named_seed_is_refused_where_it_would_be_ambiguous(write: Any, steps: Any, lines: Any) -> None:
    folder = write(
        {
            "tasks/bad.json": seeded(steps, prompt="<seed>!"),
            "tasks/bad.seeds.jsonl": lines([{"seed": 1}]),
            "tasks/fine.json": steps(),
            "tasks/fine.seeds.jsonl": lines([{"seed": 1}]),
        }
    )

    bundle = load_bundle(folder)

    assert set(bundle.templates) == {"fine", "play"}
    assert "rename the field" in bundle.left_out[0].message


def test_seed_in_a_prompt_is_noted_and_stays_text_in_rows(write: Any, steps: Any) -> None:
    bundle = load_bundle(write({"tasks/play.json": seeded(steps, prompt="Game <seed>")}))

    assert bundle.entry("all", 0).prompt == "Game <seed>"
    assert bundle.task("all", 0, seed=4).steps[3].prompt == "Game 4"  # type: ignore[attr-defined]
    assert any("<seed>" in note.message for note in bundle.notes)


def test_many_rows_are_held_as_offsets_and_streamed_in_flat_memory(write: Any, steps: Any) -> None:
    count = 20_000
    text = "".join(f'{{"id": "r{n}", "a": "{"x" * 200}"}}\n' for n in range(count))
    task = seeded(steps, prompt="<a>")
    folder = write({"tasks/day.json": task, "tasks/day.seeds.jsonl": text, "evals/some.toml": 'tasks = ["day/r1*"]'})
    load_bundle(folder)  # imports
    tracemalloc.start()
    try:
        bundle = load_bundle(folder)
        held, peak = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        assert sum(1 for _ in bundle.entries("all")) == count + 1
        streamed = tracemalloc.get_traced_memory()[1] - held
    finally:
        tracemalloc.stop()

    assert len(bundle.splits["some"]) == sum(str(n).startswith("1") for n in range(count))
    assert held < 40 * count
    assert peak < 120 * count
    assert streamed < 400_000
