"""A run on disk survives what happens to processes and disks."""

from __future__ import annotations

import errno
import json
import math
import os
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from agent_env.errors import Failure, UsageError
from agent_env.evaluation.record import EpisodeRecord
from agent_env.evaluation.settings import EvalSettings, read_extra
from agent_env.evaluation.store import EPISODES_FILE, RunStore, read_episodes, read_run, read_settings
from hypothesis import given, settings
from hypothesis import strategies as st

SETTINGS = EvalSettings("rooms", "train", 3, "0123", "http://model.example/v1", "m")
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
RECORDS = st.builds(
    EpisodeRecord,
    task=TEXT,
    index=st.integers(0, 10),
    repeat=st.integers(0, 3),
    reward=st.floats(-2, 2),
    messages=st.lists(st.fixed_dictionaries({"role": TEXT, "content": TEXT}), max_size=3),
    tokens=st.fixed_dictionaries({"prompt": st.integers(0, 99), "completion": st.integers(0, 99)}),
)


def record(task: str = "t", repeat: int = 0, **changes: Any) -> EpisodeRecord:
    return replace(EpisodeRecord(task, 0, repeat, 0.5), **changes)


def append(folder: Path, *records: EpisodeRecord) -> None:
    with RunStore(folder, SETTINGS) as store:
        for one in records:
            store.append(one)


@given(st.lists(RECORDS, max_size=6))
@settings(deadline=None, max_examples=40)
def test_what_is_written_is_read(records: list[EpisodeRecord]) -> None:
    with TemporaryDirectory() as folder:
        append(Path(folder), *records)
        read = list(read_episodes(Path(folder)))
        assert [one.as_json() for one in read] == [one.as_json() for one in records]
        assert {one.key for one in read_run(Path(folder))[1]} == {one.key for one in records}


def test_a_line_torn_anywhere_is_dropped_and_the_rest_stays(tmp_path: Path) -> None:
    append(tmp_path, record("a"), record("b", messages=[{"role": "user", "content": "ä" * 5}]))
    whole = (tmp_path / EPISODES_FILE).read_bytes()
    first = whole.index(b"\n") + 1
    for cut in range(first, len(whole), 7):
        (tmp_path / EPISODES_FILE).write_bytes(whole[:cut])
        assert [one.task for one in read_episodes(tmp_path)] == ["a"]
        with RunStore(tmp_path, SETTINGS) as store:
            assert set(store.records) == {("a", 0)}
            store.append(record("c"))
        assert [one.task for one in read_episodes(tmp_path)] == ["a", "c"]


def test_a_broken_line_in_the_middle_is_named(tmp_path: Path) -> None:
    append(tmp_path, record("a"), record("b"))
    lines = (tmp_path / EPISODES_FILE).read_bytes().splitlines()
    for broken in (b"{", b"[]", b'{"task": "a"}', b'{"task": "a", "index": 0, "repeat": 0, "reward": null}'):
        (tmp_path / EPISODES_FILE).write_bytes(b"\n".join([lines[0], broken, lines[1], b""]))
        with pytest.raises(UsageError, match=r"episodes\.jsonl:2: "), RunStore(tmp_path, SETTINGS):
            pass


def test_the_last_record_of_an_episode_counts(tmp_path: Path) -> None:
    failed = record(reward=None, failure=Failure("env", "it died"), tokens={"prompt": 7, "completion": 1})
    append(tmp_path, failed, record(reward=0.25))
    _, records = read_run(tmp_path)
    assert [one.reward for one in records] == [0.25]
    with RunStore(tmp_path, SETTINGS) as store:
        assert sum(store.wasted.values()) == 8


def test_two_processes_never_write_one_run(tmp_path: Path) -> None:
    with (
        RunStore(tmp_path, SETTINGS),
        pytest.raises(UsageError, match="another evaluation is writing"),
        RunStore(tmp_path, SETTINGS),
    ):
        pass
    append(tmp_path, record())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model": "other"}, 'model: the run has "m", now "other"'),
        ({"sampling": {"temperature": 0.5}}, "sampling: the run has"),
        ({"max_turns": 3}, "max_turns: the run has 16, now 3"),
        ({"tasks_digest": "9"}, "tasks_digest"),
    ],
)
def test_other_settings_are_refused_by_name(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    append(tmp_path, record())
    with pytest.raises(UsageError, match=words), RunStore(tmp_path, replace(SETTINGS, **change)):
        pass


@pytest.mark.parametrize("name", ["tool_timeout", "reset_timeout", "model_timeout"])
def test_more_time_continues_a_run_and_less_does_not(tmp_path: Path, name: str) -> None:
    append(tmp_path, record())
    longer: Any = {name: 1000.0}
    with RunStore(tmp_path, replace(SETTINGS, **longer)) as store:
        assert getattr(store.settings, name) == 1000.0
    with pytest.raises(UsageError, match=name), RunStore(tmp_path, SETTINGS):
        pass


@pytest.mark.parametrize(("first", "goes_on"), [("0123", True), ("other", False)])
def test_more_tasks_continue_a_run_whose_own_are_the_same(tmp_path: Path, first: str, goes_on: bool) -> None:
    append(tmp_path, record())
    more = replace(SETTINGS, tasks=5, tasks_digest="4567")
    counts: list[int] = []

    def digest(count: int) -> str:
        counts.append(count)
        return first

    store = RunStore(tmp_path, more, digest_of_first=digest)
    if goes_on:
        with store:
            assert (store.settings.tasks, store.settings.tasks_digest) == (5, "4567")
            assert len(store.records) == 1
        assert read_settings(tmp_path).tasks == 5
    else:
        with pytest.raises(UsageError, match=r"tasks: the run has 3, now 5"), store:
            pass
        assert read_settings(tmp_path).tasks == 3
    assert set(counts) == {3}


def test_an_endpoint_that_moved_continues_a_run_when_that_is_said(tmp_path: Path) -> None:
    append(tmp_path, record())
    moved = replace(SETTINGS, base_url="http://other.example/v1")
    with pytest.raises(UsageError, match=r"base_url.*\n.*--moved"), RunStore(tmp_path, moved):
        pass
    with pytest.raises(UsageError, match="model: "), RunStore(tmp_path, replace(moved, model="n"), moved=True):
        pass
    with RunStore(tmp_path, moved, moved=True) as store:
        assert len(store.records) == 1
    assert read_settings(tmp_path).base_url == moved.base_url


def test_a_run_killed_before_its_first_word_starts_anew(tmp_path: Path) -> None:
    (tmp_path / EPISODES_FILE).touch()
    append(tmp_path, record())
    assert len(read_run(tmp_path)[1]) == 1
    (tmp_path / "run.json").unlink()
    with pytest.raises(UsageError, match=r"but no run\.json"):
        append(tmp_path, record())


def test_a_refused_folder_stays_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"mine": 1}')
    with pytest.raises(UsageError, match="its format is None"):
        append(tmp_path, record())
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_more_repeats_continue_a_run(tmp_path: Path) -> None:
    append(tmp_path, record())
    with RunStore(tmp_path, replace(SETTINGS, k=4)) as store:
        assert store.settings.k == 4
    append(tmp_path, record())
    assert read_settings(tmp_path).k == 4


def test_a_full_disk_takes_the_half_line_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    with RunStore(tmp_path, SETTINGS) as store:
        store.append(record("a"))

        def half(file: int, data: bytes) -> int:
            if len(data) > 40:
                return write(file, bytes(data[:40]))
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "write", half)
        with pytest.raises(OSError, match=f"No space left on device: .*{EPISODES_FILE}"):
            store.append(record("b"))
        monkeypatch.undo()
        store.append(record("c"))
        assert set(store.records) == {("a", 0), ("c", 0)}
    assert [one.task for one in read_episodes(tmp_path)] == ["a", "c"]


def test_secrets_are_taken_out_of_texts(tmp_path: Path) -> None:
    with RunStore(tmp_path, SETTINGS, redact=lambda text: text.replace("sk-1234", "[key]")) as store:
        store.append(
            record(
                messages=[{"role": "tool", "content": "your key is sk-1234", "odd": [{"sk-1234": "sk-1234"}]}],
                earlier=("env: sk-1234",),
                warnings=("sk-1234",),
                failure=Failure("env", "sk-1234"),
                reward=None,
            )
        )
    assert b"sk-1234" not in (tmp_path / EPISODES_FILE).read_bytes()


@pytest.mark.parametrize("key", ["completion", "messages", "e", '"', "\\"])
def test_a_key_that_is_also_a_word_of_the_format_breaks_no_line(tmp_path: Path, key: str) -> None:
    one = record(tokens={"prompt": 3, "completion": 4}, messages=[{"role": "user", "content": f"the {key}"}])
    with RunStore(tmp_path, SETTINGS, redact=lambda text: text.replace(key, "[key]")) as store:
        store.append(one)
    (read,) = read_run(tmp_path, transcripts=True)[1]
    assert (read.reward, read.tokens) == (one.reward, one.tokens)
    assert f"the {key}".replace(key, "[key]") in read.messages[0].values()


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no run"):
        read_run(tmp_path)
    (tmp_path / "run.json").write_text('{"format": 99}')
    with pytest.raises(UsageError, match="its format is 99"):
        read_run(tmp_path)
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(UsageError, match="is not JSON"):
        read_run(tmp_path)
    broken: list[tuple[Any, str]] = [
        ([], "base_url, bundle, model, split, tasks, tasks_digest missing"),
        ({**SETTINGS.as_json(), "tasks": "many"}, "tasks is no count"),
        ({**SETTINGS.as_json(), "pass_at": None}, "pass_at is no number"),
    ]
    for settings_, words in broken:
        (tmp_path / "run.json").write_text(json.dumps({"format": 1, "settings": settings_}))
        with pytest.raises(UsageError, match=f"run.json: .*{words}"):
            read_run(tmp_path)


@pytest.mark.parametrize("reward", [math.nan, math.inf, "1", True])
def test_a_reward_that_is_none_is_named_by_its_line(tmp_path: Path, reward: Any) -> None:
    append(tmp_path, record("a"))
    with (tmp_path / EPISODES_FILE).open("a") as file:
        file.write(json.dumps({**record("b").as_json(), "reward": reward}) + "\n")
    with pytest.raises(UsageError, match=rf"{EPISODES_FILE}:2: .*its reward is"):
        read_run(tmp_path)


def test_equal_settings_have_one_default_folder() -> None:
    name = SETTINGS.default_name()
    assert name.startswith("rooms-train-m-")
    assert replace(SETTINGS, k=9, pass_at=0.5).default_name() == name
    assert replace(SETTINGS, max_turns=9).default_name() != name
    assert "/" not in replace(SETTINGS, model="../org/m").default_name()


def test_extra_fields_are_json() -> None:
    assert read_extra(('a={"b": [1]}', 'c="x"')) == {"a": {"b": [1]}, "c": "x"}
    for wrong, words in (
        ("a", "KEY=JSON"),
        ("a=x", "is not JSON"),
        ("a=NaN", "is not JSON"),
        ("a=[1e999]", "not JSON"),
        ("n=2", "itself"),
    ):
        with pytest.raises(UsageError, match=words):
            read_extra((wrong,))
    assert read_extra(("top_k=5",), {"temperature": 0.0}) == {"temperature": 0.0, "top_k": 5}
    with pytest.raises(UsageError, match="temperature: that field is given twice"):
        read_extra(("temperature=1",), {"temperature": 0.0})
