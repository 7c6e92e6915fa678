"""Real processes: a server that is killed and comes back, an env that is killed, and nothing that is left."""

from __future__ import annotations

import asyncio
import copy
import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.errors import ServerError
from agent_env.openenv.client import BundleClient
from agent_env.testing.standin import Fault, StandInModel, call, say
from agent_env.training.miles import agent

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator

SERVER = '''
import os, signal, time
from agent_env.env import Env, tool

class Room(Env, name="room"):
    """A room."""

    @tool
    def look(self) -> str:
        """Look around."""
        return "two doors"

    @tool
    def hang(self, seconds: float) -> str:
        """Take long."""
        time.sleep(seconds)
        return "awake"

    @tool
    def die(self) -> str:
        """The env's process is killed."""
        os.kill(os.getpid(), signal.SIGKILL)
        return ""

if __name__ == "__main__":
    Room.serve()
'''
RUN = "import sys\nfrom _agentenv_start import main\nsys.argv[0] = 'agentenv'\nmain()"


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the sandboxes of this test live; a short path, for their sockets."""
    with tempfile.TemporaryDirectory(prefix="aet-", ignore_cleanup_errors=True) as folder:
        monkeypatch.setenv("AGENTENV_STATE_DIR", folder)
        yield Path(folder)


@pytest.fixture
def room(bundle: Path) -> Path:
    """The bundle, its env a program."""
    env = bundle / "envs" / "room"
    (env / "server.py").write_text(SERVER)
    (env / "agentenv.toml").write_text('[process]\ncommand = ["python", "server.py"]\nprefork = true\n')
    return bundle


def left_of(*markers: Path) -> list[int]:
    """Processes that were started for a marker: it stands in their command line, environment or folder."""
    found: list[int] = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            texts = [(folder / "cmdline").read_bytes(), (folder / "environ").read_bytes()]
            texts.append(str((folder / "cwd").readlink()).encode())
        except OSError:
            continue
        if any(str(marker).encode() in text for marker in markers for text in texts):
            found.append(int(folder.name))
    return found


async def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  other processes do
            await asyncio.sleep(0.02)


@asynccontextmanager
async def serving(bundle: Path, port: int) -> AsyncGenerator[asyncio.subprocess.Process]:
    """``agentenv serve`` as a process; it is stopped in order unless it is gone already."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        RUN,
        "serve",
        str(bundle),
        "--port",
        str(port),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        async with BundleClient(f"http://127.0.0.1:{port}") as client, asyncio.timeout(60):
            while True:
                try:
                    await client.health()
                    break
                except ServerError:
                    assert process.returncode is None
                    await asyncio.sleep(0.05)
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def run(model: StandInModel, row: dict[str, Any], **own: Any) -> dict[str, Any]:
    metadata = copy.deepcopy(row["metadata"])
    metadata["agentenv"].update(own)
    return await agent.run(
        base_url=model.open_session(), prompt=row["messages"], request_kwargs={"temperature": 1.0}, metadata=metadata
    )


def policy(*replies: Any) -> Callable[..., Any]:
    def reply(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Any:
        return replies[min(sum(message["role"] == "assistant" for message in messages), len(replies) - 1)]

    return reply


def chats(model: StandInModel) -> int:
    return sum(session.chats for session in model.sessions.values())


def test_an_episode_in_real_processes(room: Path, state: Path, rows: Any, new_port: Callable[[], int]) -> None:
    async def main() -> None:
        port = new_port()
        async with serving(room, port), StandInModel(policy(call("look"), say("xyzzy"))) as model:
            row = (await rows(f"http://127.0.0.1:{port}", reset_timeout=60))["eval"][0]
            results = await asyncio.gather(*(run(model, row) for _ in range(4)))
            assert [result["reward"] for result in results] == [1.0] * 4
            assert len(left_of(state)) > 1  # the server and what it runs
        await until(lambda: not left_of(room, state))

    asyncio.run(main())


def test_a_killed_env_is_a_failure_of_the_env(room: Path, state: Path, rows: Any, new_port: Callable[[], int]) -> None:
    async def main() -> None:
        port = new_port()
        async with serving(room, port), StandInModel(policy(call("die"), say("xyzzy"))) as model:
            row = (await rows(f"http://127.0.0.1:{port}", reset_timeout=60))["eval"][0]
            result = await run(model, row)
            assert result["agentenv_failure"].startswith("env: ")
            assert chats(model) == 1
        await until(lambda: not left_of(room, state))

    asyncio.run(main())


def test_a_hung_tool_is_a_tool_timeout(room: Path, state: Path, rows: Any, new_port: Callable[[], int]) -> None:
    async def main() -> None:
        port = new_port()
        async with serving(room, port), StandInModel(policy(call("hang", seconds=120), say("xyzzy"))) as model:
            row = (await rows(f"http://127.0.0.1:{port}", reset_timeout=60, tool_timeout=0.5))["eval"][0]
            result = await run(model, row)
            assert result["agentenv_failure"].startswith("tool_timeout: ")
        await until(lambda: not left_of(room, state))

    asyncio.run(main())


def test_a_server_killed_before_the_first_chat_and_restarted_is_not_noticed(
    room: Path, state: Path, rows: Any, new_port: Callable[[], int]
) -> None:
    async def main() -> None:
        port = new_port()
        async with StandInModel(policy(call("look"), say("xyzzy"))) as model:
            async with serving(room, port) as server:
                row = (await rows(f"http://127.0.0.1:{port}", reset_timeout=60))["eval"][0]
                os.kill(server.pid, signal.SIGSTOP)
                rollouts = [asyncio.create_task(run(model, row)) for _ in range(3)]
                await asyncio.sleep(0.3)
                os.kill(server.pid, signal.SIGKILL)
                await server.wait()
            assert chats(model) == 0
            async with serving(room, port):
                results = await asyncio.gather(*rollouts)
            for result in results:
                assert "agentenv_failure" not in result
                assert result["reward"] == 1.0
                assert result["agent_metrics"]["reset_retries"] >= 1
        await until(lambda: not left_of(room, state))

    asyncio.run(main())


def test_a_server_killed_after_the_first_chat_is_a_flagged_failure(
    room: Path, state: Path, rows: Any, new_port: Callable[[], int]
) -> None:
    async def main() -> None:
        port = new_port()
        async with StandInModel(policy(call("look")), faults={1: Fault.slow(2)}) as model:
            async with serving(room, port) as server:
                row = (await rows(f"http://127.0.0.1:{port}", reset_timeout=60))["eval"][0]
                rollout = asyncio.create_task(run(model, row))
                await until(lambda: chats(model) == 2)
                os.kill(server.pid, signal.SIGKILL)
                await server.wait()
            async with serving(room, port):
                result = await rollout
            assert result["agentenv_failure"].startswith("server: ")
            assert json.dumps(result)
            assert chats(model) == 2
        await until(lambda: not left_of(room, state))

    asyncio.run(main())
