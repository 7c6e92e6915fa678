from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.errors import AgentEnvError, UsageError
from agent_env.plugin.trainer import RowSettings
from agent_env.testing.small import serve_in_process, small_bundle
from agent_env.training.verl.adapter import VerlAdapter
from agent_env.training.verl.parquet import read_parquet, write_parquet
from agent_env.training.verl.row import read_row
from agent_env.training.verl.rows import VerlRow

if TYPE_CHECKING:
    from pathlib import Path

TOOLS = '[{"type": "function", "function": {"name": "look", "parameters": {}}}]'
TASK = {"id": "@local/b/t", "index": 3, "prompt": "Où?", "system_prompt": "Be kind."}


def _row(**changed: Any) -> dict[str, Any]:
    row: dict[str, Any] = json.loads(VerlRow("http://h:1/", RowSettings(max_turns=9))("train", TASK, TOOLS))
    return {**row, **changed}


def _own(**changed: Any) -> str:
    return json.dumps({**json.loads(_row()["agentenv"]), **changed})


def test_a_row_is_read_as_it_was_written() -> None:
    row = read_row(_row(), prompt_key="prompt")
    assert (row.url, row.split, row.index, row.task_id) == ("http://h:1", "train", 3, "@local/b/t")
    assert (row.max_turns, row.parser, row.token, row.seed) == (9, None, None, None)
    assert [message["content"] for message in row.prompt] == ["Be kind.", "Où?"]
    assert row.tools[0]["function"]["name"] == "look"


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"agentenv": None}, "agentenv rows verl"),
        ({"agentenv": "{"}, "not valid JSON"),
        ({"agentenv": "[]"}, "JSON text of an object"),
        ({"agentenv_tools": "{}"}, "list of function schemas"),
        ({"agentenv": _own(index=-1)}, "'index'"),
        ({"agentenv": _own(split="")}, "'split'"),
        ({"agentenv": _own(model_timeout=0)}, "'model_timeout'"),
        ({"agentenv": _own(token_var="NO_SUCH_VARIABLE")}, "NO_SUCH_VARIABLE"),
        ({"prompt": "text"}, "list of messages"),
        ({"prompt": []}, "list of messages"),
        ({"prompt": None}, "list of messages"),
    ],
)
def test_a_row_that_is_wrong_is_named(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read_row(_row(**changed), prompt_key="prompt")


def test_the_token_is_read_from_its_variable_and_stays_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUR_TOKEN", "s3cret")
    row = read_row(_row(agentenv=_own(token_var="OUR_TOKEN")), prompt_key="prompt")
    assert row.token == "s3cret"
    assert "s3cret" not in repr(row)


def test_many_rows_survive_parquet(tmp_path: Path) -> None:
    word = VerlRow("http://h:1", RowSettings())
    lines = [word("train", {**TASK, "index": number}, TOOLS) for number in range(2500)]
    (tmp_path / "train.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (tmp_path / "eval.jsonl").write_text("", encoding="utf-8")
    files = write_parquet([tmp_path / "eval.jsonl", tmp_path / "train.jsonl"], tmp_path / "out")
    assert [file.name for file in files] == ["eval.parquet", "train.parquet"]
    assert read_parquet(files[0]) == []
    assert read_parquet(files[1]) == [json.loads(line) for line in lines]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["eval.parquet", "train.parquet"]


def test_rows_that_cannot_be_read_leave_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(VerlRow("http://h:1", RowSettings())("a", TASK, TOOLS) + "\n")
    out = tmp_path / "out"
    with pytest.raises(FileNotFoundError):
        write_parquet([tmp_path / "a.jsonl", tmp_path / "missing.jsonl"], out)
    assert not out.exists()


def test_a_full_disk_is_an_error_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from agent_env.rollout.rows.files import RowFiles

    def full(self: RowFiles, data: bytes) -> None:
        raise AgentEnvError("no space left on device")

    monkeypatch.setattr(RowFiles, "write", full)
    (tmp_path / "a.jsonl").write_text(VerlRow("http://h:1", RowSettings())("a", TASK, TOOLS) + "\n")
    with pytest.raises(AgentEnvError, match="no space left"):
        write_parquet([tmp_path / "a.jsonl"], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_rehearsal_with_one_of_our_parsers_reads_calls_of_text(tmp_path: Path) -> None:
    from agent_env.plugin.trainer import RehearsalPlan, RehearsalSample
    from agent_env.testing.rehearsal_checks import find

    async def main() -> list[RehearsalSample]:
        async with serve_in_process(small_bundle(tmp_path / "small")) as served:
            plan = RehearsalPlan(served.url, "train", 1, 1, find, rows=RowSettings(parser="hermes"))
            return [event async for event in VerlAdapter().rehearse(plan) if isinstance(event, RehearsalSample)]

    (sample,) = asyncio.run(main())
    assert (sample.reward, sample.tool_calls, sample.failure) == (1.0, 1, None)
    assert "<tool_call>" in str(sample.transcript[1]["content"])
