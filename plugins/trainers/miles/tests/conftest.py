from __future__ import annotations

import asyncio
import inspect
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.plugin.tools import ToolResult, ToolSpec
from agent_env.testing.in_process import InProcessDeployer, InProcessEnv

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from pathlib import Path

SPECS = [
    ToolSpec("look", "Look around.", {"type": "object", "properties": {}}),
    ToolSpec("open", "Open a door.", {"type": "object", "properties": {"door": {"type": "integer"}}}),
    ToolSpec("sleep", "Sleep.", {"type": "object", "properties": {"seconds": {"type": "number"}}}),
    ToolSpec("die", "The env dies.", {"type": "object", "properties": {}}),
]


def make_room() -> InProcessEnv:
    """A room with two doors."""
    env = InProcessEnv("room")

    async def sleep(arguments: Any) -> str:
        await asyncio.sleep(float(arguments.get("seconds", 1)))
        return "awake"

    def die(arguments: Any) -> str:
        env.gone = "exit code -9"
        return ""

    def open_door(arguments: Any) -> str | ToolResult:
        if arguments.get("door") not in {1, 2}:
            return ToolResult([{"type": "text", "text": "no such door"}], is_error=True)
        return f"behind door {arguments['door']} is the word xyzzy"

    env.tools = {"look": lambda arguments: "two doors", "open": open_door, "sleep": sleep, "die": die}
    env.specs = SPECS
    return env


def task(*prompts: str) -> list[dict[str, Any]]:
    """Steps of a task whose reply to the last prompt must hold the word."""
    asks = [
        {"id": f"ask{number}", "type": "prompt_agent", "prompt": prompt, "prompt_id": f"p{number}"}
        for number, prompt in enumerate(prompts)
    ]
    asks[0]["system_prompt"] = "You are in a room."
    return [
        {"id": "deploy", "type": "deploy_env", "env_id": "room"},
        {"id": "agent", "type": "deploy_agent", "env_ids": ["room"]},
        *asks,
        {
            "id": "word",
            "type": "agent_prompt_response_verifier",
            "prompt_id": f"p{len(prompts) - 1}",
            "criteria": [{"type": "response_contains", "needles": ["xyzzy"]}],
        },
    ]


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A bundle with a task of one turn and one of two turns."""
    folder = tmp_path / "rooms"
    (folder / "envs" / "room").mkdir(parents=True)
    (folder / "envs" / "room" / "Dockerfile").write_text('FROM python:3.11\nCMD ["python", "server.py"]\n')
    (folder / "tasks").mkdir()
    (folder / "tasks" / "find.json").write_text(json.dumps(task("Which word is in the room?")))
    (folder / "tasks" / "recall.json").write_text(json.dumps(task("Find a word.", "Say it again.")))
    (folder / "evals").mkdir()
    (folder / "evals" / "eval.toml").write_text('type = "eval"\ntasks = ["find"]\n')
    (folder / "evals" / "train.toml").write_text('type = "eval"\ntasks = ["find", "recall"]\n')
    return folder


class Served:
    """A served bundle and the envs that live."""

    def __init__(self, url: str, deployer: InProcessDeployer, app: Any) -> None:
        self.url = url
        self.app = app
        self._deployer = deployer

    @property
    def envs(self) -> int:
        return sum(not env.closed for env in self._deployer.deployed)

    async def quiet(self) -> None:
        """Wait until no env lives any more."""
        async with asyncio.timeout(10):
            while self.envs:  # noqa: ASYNC110  the server counts them
                await asyncio.sleep(0.01)


@pytest.fixture
def serve(bundle: Path) -> Any:
    """Serve the bundle on in-process envs: ``async with serve() as served``; ``deploy`` is called at each deploy."""

    @asynccontextmanager
    async def start(
        deploy: Callable[[], Any] | None = None, *, port: int = 0, **options: Any
    ) -> AsyncGenerator[Served]:
        from agent_env.bundle import load_bundle
        from agent_env.episode import Engine
        from agent_env.openenv import build_app
        from agent_env.openenv.run import running_server

        async def make() -> InProcessEnv:
            if deploy is not None:
                waiting = deploy()
                if inspect.isawaitable(waiting):
                    await waiting
            return make_room()

        deployer = InProcessDeployer({"room": make})
        loaded = load_bundle(bundle)
        app = build_app(loaded, engine=Engine(loaded, deployer=deployer), **options)
        async with running_server(app, port=port) as url:
            yield Served(url, deployer, app)

    return start


@pytest.fixture
def rows(tmp_path: Path) -> Any:
    """Write rows of a server and read them: ``await rows(url)`` gives the rows by split."""

    async def write(url: str, **settings: Any) -> dict[str, list[dict[str, Any]]]:
        from agent_env.plugin.trainer import RowSettings
        from agent_env.training.miles.adapter import MilesAdapter

        defaults: dict[str, Any] = {"tool_timeout": 5, "reset_timeout": 10, "model_timeout": 20}
        files = await MilesAdapter().write_rows(url, tmp_path / "data", RowSettings(**{**defaults, **settings}))
        return {file.stem: [json.loads(line) for line in file.read_text().splitlines()] for file in files}

    return write
