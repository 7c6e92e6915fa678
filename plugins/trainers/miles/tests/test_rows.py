"""Row files, written from the real server."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.errors import AgentEnvError
from agent_env.plugin.trainer import RowSettings
from agent_env.testing.standin import StandInModel, say
from agent_env.training.miles import agent
from agent_env.training.miles.adapter import MilesAdapter

if TYPE_CHECKING:
    from pathlib import Path


async def command(*arguments: str, **env: str) -> tuple[int, str, str]:
    """Run the rows command in its own process."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "agent_env.training.miles",
        *arguments,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **env},
    )
    out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()


def test_the_command_writes_a_file_for_each_split(serve: Any, tmp_path: Path) -> None:
    async def main() -> None:
        async with serve() as served:
            out = tmp_path / "deep" / "data"
            code, printed, errors = await command(served.url, str(out))
            assert (code, printed, errors) == (0, f"wrote all.jsonl, eval.jsonl, train.jsonl to {out}\n", "")
            assert sorted(path.name for path in out.iterdir()) == ["all.jsonl", "eval.jsonl", "train.jsonl"]
            rows = {path.stem: [json.loads(line) for line in path.read_text().splitlines()] for path in out.iterdir()}
            assert {split: len(rows[split]) for split in rows} == {"all": 2, "eval": 1, "train": 2}
            for split, lines in rows.items():
                assert [row["metadata"]["index"] for row in lines] == list(range(len(lines)))
                assert {row["metadata"]["split"] for row in lines} == {split}
            row = rows["eval"][0]
            assert set(row) == {"messages", "metadata"}
            assert row["messages"] == [
                {"role": "system", "content": "You are in a room."},
                {"role": "user", "content": "Which word is in the room?"},
            ]
            metadata = row["metadata"]
            assert set(metadata) == {"split", "index", "task_id", "tools", "agentenv"}
            assert metadata["agentenv"] == {
                "url": served.url,
                "max_turns": 4,
                "tool_timeout": 60,
                "reset_timeout": 600,
                "model_timeout": 600,
                "token_var": None,
            }
            names = [tool["function"]["name"] for tool in metadata["tools"]]
            assert sorted(names) == ["die", "end_turn", "look", "open", "sleep"]
            assert all(tool["type"] == "function" for tool in metadata["tools"])
            await served.quiet()

    asyncio.run(main())


def test_one_task_of_each_toolset_is_played(serve: Any, tmp_path: Path) -> None:
    async def main() -> None:
        deploys = 0

        def deploy() -> None:
            nonlocal deploys
            deploys += 1

        async with serve(deploy) as served:
            await MilesAdapter().write_rows(served.url, tmp_path / "data", RowSettings())
            assert deploys == 1
            await served.quiet()

    asyncio.run(main())


def test_tasks_with_a_seed_placeholder(serve: Any, bundle: Path, rows: Any) -> None:
    async def main() -> None:
        file = bundle / "tasks" / "find.json"
        file.write_text(file.read_text().replace("xyzzy", "word-<seed>"))

        def reply(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Any:
            return say("word-7")

        async with serve() as served, StandInModel(reply) as model:
            row = (await rows(served.url))["eval"][0]
            row["metadata"]["seed"] = 7
            result = await agent.run(model.open_session(), row["messages"], {}, row["metadata"])
            assert result["reward"] == 1.0
            del row["metadata"]["seed"]
            result = await agent.run(model.open_session(), row["messages"], {}, row["metadata"])
            assert "<seed>" in result["agentenv_failure"]

    asyncio.run(main())


def test_options_reach_the_rows(serve: Any, tmp_path: Path) -> None:
    async def main() -> None:
        async with serve(token="pass-word") as served:
            options = [
                "--max-turns",
                "9",
                "--tool-timeout",
                "2.5",
                "--reset-timeout",
                "30",
                "--model-timeout",
                "40",
                "--token-var",
                "ROOM",
            ]
            code, _, errors = await command(served.url + "/", str(tmp_path / "data"), *options, ROOM="pass-word")
            assert (code, errors) == (0, "")
            text = (tmp_path / "data" / "all.jsonl").read_text()
            assert "pass-word" not in text
            assert json.loads(text.splitlines()[0])["metadata"]["agentenv"] == {
                "url": served.url,
                "max_turns": 9,
                "tool_timeout": 2.5,
                "reset_timeout": 30,
                "model_timeout": 40,
                "token_var": "ROOM",
            }

    asyncio.run(main())


def one_line(errors: str) -> str:
    assert errors.startswith("error: ")
    assert errors.count("\n") == 1
    assert "Traceback" not in errors
    return errors


def nothing_in(folder: Path) -> bool:
    return not folder.exists() or not list(folder.iterdir())


def test_what_is_wrong_is_said_in_one_line(serve: Any, tmp_path: Path) -> None:
    out = tmp_path / "data"

    async def main() -> None:
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            code, _, errors = await command(f"http://127.0.0.1:{closed.getsockname()[1]}", str(out))
            assert code == 1
            assert "cannot reach" in one_line(errors)
        async with serve(token="pass-word") as served:
            code, _, errors = await command(served.url, str(out))
            assert code == 1
            assert "token" in one_line(errors)
            code, _, errors = await command(served.url, str(out), "--token-var", "ROOM", ROOM="wrong")
            assert code == 1
            assert "token" in one_line(errors)
            assert "wrong" not in errors
            code, _, errors = await command(served.url, str(out), "--token-var", "NO_SUCH_VARIABLE")
            assert code == 2
            assert "NO_SUCH_VARIABLE" in one_line(errors)
        code, _, errors = await command("http://user:secret@127.0.0.1:1", str(out))
        assert code == 2
        assert "secret" not in one_line(errors)
        file = tmp_path / "file"
        file.write_text("")
        async with serve() as served:
            code, _, errors = await command(served.url, str(file / "data"))
            assert code == 1
            assert "cannot write rows" in one_line(errors)
        assert nothing_in(out)

    asyncio.run(main())


def test_a_server_of_something_else_is_named(tmp_path: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello")
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    async def main() -> None:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            code, _, errors = await command(f"http://127.0.0.1:{port}", str(tmp_path / "data"))
            assert code == 1
            assert str(port) in one_line(errors)
        assert nothing_in(tmp_path / "data")

    asyncio.run(main())


@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
def test_a_full_disk_leaves_the_old_files(
    serve: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    async def main() -> None:
        out = tmp_path / "data"
        out.mkdir()
        (out / "eval.jsonl").write_text("old\n")

        def full(*_: Any) -> Any:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        if call == "write":
            monkeypatch.setattr("agent_env.rollout.rows.files.RowFiles.start", _start_on_full_device)
        elif call == "fsync":
            monkeypatch.setattr("os.fsync", full)
        else:
            monkeypatch.setattr("pathlib.Path.replace", full)
        async with serve() as served:
            with pytest.raises(AgentEnvError, match="No space left on device"):
                await MilesAdapter().write_rows(served.url, out, RowSettings())
        assert [path.name for path in out.iterdir()] == ["eval.jsonl"]
        assert (out / "eval.jsonl").read_text() == "old\n"

    asyncio.run(main())


def _start_on_full_device(files: Any, name: str) -> None:
    """A file on Linux's device that is always full, which a link of a passing name leads to."""
    path = files._folder / f".{name}.part"
    path.symlink_to("/dev/full")
    files._file = path.open("wb", buffering=0)
    files._passing[name] = path


def test_an_env_that_cannot_start_is_named(serve: Any, tmp_path: Path) -> None:
    def deploy() -> None:
        raise AgentEnvError("no such image")

    async def main() -> None:
        async with serve(deploy) as served:
            code, _, errors = await command(served.url, str(tmp_path / "data"))
            assert code == 1
            assert "find" in one_line(errors)
            assert "no such image" in errors
        assert nothing_in(tmp_path / "data")

    asyncio.run(main())
