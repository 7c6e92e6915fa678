"""Bundles written for a test, and engines whose envs are functions."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import asynccontextmanager
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from agent_env.bundle import load_bundle
from agent_env.episode import Engine
from agent_env.plugin.tools import ToolSpec
from agent_env.registry import Registry
from agent_env.testing.in_process import InProcessDeployer, InProcessEnv

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from agent_env.bundle import Bundle
    from agent_env.episode import Episode

Step = dict[str, Any]

ECHO = '''
import os, sys, time
from agent_env.env import Env, ToolError, add_data, extension, get_data, reset_data, tool

class Echo(Env, name="echo"):
    """Says things back."""

    def __init__(self):
        self.said = []
        self.parts = []
        self.day = None

    @tool
    def echo(self, text: str) -> str:
        """Say it back."""
        self.said.append(text)
        return text

    @tool
    def fail(self) -> str:
        """Refuse."""
        raise ToolError("not today")

    @tool
    async def hang(self) -> str:
        """Never answer."""
        import asyncio
        await asyncio.sleep(3600)

    @tool
    def die(self) -> str:
        """End the process."""
        print("going down", flush=True)
        os._exit(7)

    @reset_data
    def reset(self) -> None:
        self.parts = []

    @add_data
    def add(self, parts: list[dict]) -> None:
        self.parts += parts

    @get_data
    def get(self) -> list[dict]:
        return [{"kind": "data", "data": {"said": self.said, "parts": self.parts, "day": self.day, "pid": os.getpid()}}]

    @extension("urn:echo:load/v1")
    def load(self, day: str) -> dict:
        self.day = day
        return {"loaded": day}

if __name__ == "__main__":
    Echo.serve()
'''

DATA_GET = """
import http.client, json
from urllib.parse import urlsplit

def data(mcp_url):
    parts = urlsplit(mcp_url)
    link = http.client.HTTPConnection(parts.hostname, parts.port, timeout=10)
    link.request("POST", "/agentenv", json.dumps({"jsonrpc": "2.0", "id": 1, "method": "data/get", "params": {}}),
                 {"Content-Type": "application/json"})
    return json.loads(link.getresponse().read())["result"]["parts"][0]["data"]
"""


class BundleBuilder:
    """Writes a bundle. Methods return the builder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def env(self, name: str = "echo", server: str = ECHO, *, prefork: bool = False) -> BundleBuilder:
        """An env from the text of its server."""
        folder = self.path / "envs" / name
        folder.mkdir(parents=True)
        (folder / "server.py").write_text(server)
        (folder / "Dockerfile").write_text('FROM python:3.11-slim\nCOPY server.py ./\nCMD ["python", "server.py"]\n')
        settings = f'[process]\ncommand = ["python", "server.py"]\nprefork = {str(prefork).lower()}\n'
        (folder / "agentenv.toml").write_text(settings)
        (folder / "env.toml").write_text(f'environment_name = "{name}"\n')
        return self

    def artifact(self, name: str, **files: str) -> BundleBuilder:
        """An artifact from the texts of its files; ``verify_py`` makes ``verify.py``."""
        folder = self.path / "artifacts" / name
        folder.mkdir(parents=True)
        for file, text in files.items():
            (folder / ".".join(file.rsplit("_", 1))).write_text(dedent(text))
        return self

    def verifier(self, text: str, name: str = "check") -> BundleBuilder:
        """An artifact with a ``verify.py``; ``data(mcp_url)`` in it reads the env's data."""
        return self.artifact(name, verify_py=DATA_GET + dedent(text))

    def task(self, *steps: dict[str, Any], name: str = "task") -> BundleBuilder:
        """A task file; a step without an id gets its type as one. A deploy_agent is put in where there is none."""
        if not any(step["type"] == "deploy_agent" for step in steps):
            first = next(index for index, step in enumerate(steps) if step["type"] == "prompt_agent")
            steps = (*steps[:first], {"type": "deploy_agent"}, *steps[first:])
        folder = self.path / "tasks"
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.json").write_text(json.dumps([{"id": step["type"], **step} for step in steps]))
        return self

    def load(self) -> Bundle:
        """Read it; every task must be playable."""
        bundle = load_bundle(self.path)
        assert not bundle.left_out, [str(problem) for problem in bundle.left_out]
        return bundle


@pytest.fixture
def bundle(tmp_path: Path) -> BundleBuilder:
    """A builder with an empty folder."""
    folder = tmp_path / "bundle"
    folder.mkdir()
    return BundleBuilder(folder)


class Steps:
    """Short forms of steps."""

    deploy: ClassVar[Step] = {"type": "deploy_env", "env_id": "echo"}
    ask: ClassVar[Step] = {"type": "prompt_agent", "prompt": "Say hello."}
    reply: ClassVar[Step] = {
        "type": "agent_prompt_response_verifier",
        "id": "reply",
        "prompt_id": "prompt_agent",
        "criteria": [{"type": "response_contains", "needles": ["hello"]}],
    }
    grade: ClassVar[Step] = {
        "type": "env_outcome_verifier",
        "id": "grade",
        "env_id": "echo",
        "file_artifact_id": "check",
    }


@pytest.fixture
def steps() -> type[Steps]:
    """Short forms of steps."""
    return Steps


@pytest.fixture
def registry() -> Registry:
    """What is installed."""
    return Registry()


def echo_env() -> InProcessEnv:
    """An env with one tool."""
    spec = ToolSpec("echo", "Say it back.", {"type": "object", "properties": {"text": {"type": "string"}}})
    return InProcessEnv(name="echo", specs=[spec], tools={"echo": lambda arguments: str(arguments["text"])})


class InProcess:
    """An engine without sandboxes, and what it deployed."""

    def __init__(self, engine: Engine, deployer: InProcessDeployer) -> None:
        self.engine = engine
        self.deployer = deployer

    def episode(self, index: int = 0) -> Episode:
        """An episode of the bundle's task of this index."""
        return self.engine.episode(self.engine.bundle.task("all", index))


@pytest.fixture
def in_process() -> Callable[..., Any]:
    """``async with in_process(bundle, echo=make_env, code=..., reward=...) as it``; nothing may be left afterwards."""

    @asynccontextmanager
    async def make(
        bundle: BundleBuilder,
        *,
        code: Callable[..., Any] | None = None,
        envs: dict[str, Callable[[], Any]] | None = None,
        deployer: InProcessDeployer | None = None,
        **options: Any,
    ) -> AsyncGenerator[InProcess, None]:
        deployer = deployer or InProcessDeployer(envs or {"echo": echo_env}, code=code)
        async with Engine(bundle.load(), deployer=deployer, **options) as engine:
            yield InProcess(engine, deployer)
        assert engine.open_episodes == 0
        assert [env for env in deployer.deployed if not env.closed] == []

    return make


def descendants(root: int) -> set[int]:
    """Processes below ``root``."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if fields[0] != "Z":
                children.setdefault(int(fields[1]), []).append(int(entry.name))
    found: set[int] = set()
    todo = [root]
    while todo:
        for child in children.get(todo.pop(), []):
            found.add(child)
            todo.append(child)
    return found


@pytest.fixture
def serve(tmp_path: Path) -> Any:
    """``async with serve(bundle) as engine``; afterwards no process and no sandbox folder is left."""

    @asynccontextmanager
    async def run(bundle: BundleBuilder, **options: Any) -> AsyncGenerator[Engine, None]:
        state = tmp_path / "state"
        before = descendants(os.getpid())
        engine = Engine(bundle.load(), sandbox_options={"process": {"state_dir": str(state)}}, **options)
        async with engine:
            await engine.prepared()
            yield engine
        assert engine.open_episodes == 0
        async with asyncio.timeout(10):
            while True:
                if not descendants(os.getpid()) - before:
                    break
                await asyncio.sleep(0.02)
        assert [str(path) for path in state.rglob("root")] == []
        others = asyncio.all_tasks() - {asyncio.current_task()}
        assert not others

    return run


@pytest.fixture
def processes() -> Callable[[], set[int]]:
    """``processes()``: those below this one."""
    return lambda: descendants(os.getpid())
