"""Rows of the taskset: read from a server, wherever the caller sits, or from a file."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest
from agent_env.errors import AgentEnvError, UsageError
from agent_env.plugin.trainer import RowSettings
from agent_env.testing.small import serve_in_process, small_bundle
from agent_env.training.verifiers import read
from agent_env.training.verifiers.adapter import VerifiersAdapter
from agent_env.training.verifiers.read import read_file, read_server
from agent_env.training.verifiers.rows import row_settings

if TYPE_CHECKING:
    from pathlib import Path


def test_the_rows_of_a_server_are_those_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "_PAGE", 2)
    settings = RowSettings(max_turns=9, tool_timeout=3)

    async def main() -> None:
        async with serve_in_process(small_bundle(tmp_path / "small", tasks=5)) as served:
            await VerifiersAdapter().write_rows(served.url, tmp_path, settings)
            # Synchronously, in a thread that has an event loop running.
            rows = await asyncio.to_thread(lambda: asyncio.run(listed(served.url)))
            assert [{**row, **row_settings(settings)} for row in rows] == list(read_file(tmp_path / "train.jsonl"))
            assert [row["index"] for row in rows] == [0, 1, 2, 3, 4]
            with pytest.raises(UsageError, match=r"'nowhere'.*all.*train"):
                await asyncio.to_thread(lambda: list(read_server(served.url, "nowhere")))

    async def listed(url: str) -> list[dict[str, object]]:
        return list(read_server(url, "train"))

    asyncio.run(main())


def test_a_token_that_is_not_set_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_TOKEN_HERE", raising=False)
    with pytest.raises(UsageError, match="NO_TOKEN_HERE"):
        list(read_server("http://127.0.0.1:9", "train", token_var="NO_TOKEN_HERE"))  # noqa: S106 - its name


def test_a_server_that_is_gone_is_named() -> None:
    with pytest.raises(AgentEnvError, match=r"127\.0\.0\.1:9"):
        list(read_server("http://127.0.0.1:9", "train"))


@pytest.mark.parametrize("line", ["no json", "[]", json.dumps({"prompt": "x"})])
def test_a_bad_line_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"url": "x"}) + "\n" + line + "\n", "utf-8")
    with pytest.raises(UsageError, match=r"rows\.jsonl:2"):
        list(read_file(path))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nothing\.jsonl"):
        list(read_file(tmp_path / "nothing.jsonl"))
