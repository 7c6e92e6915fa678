from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, cast

import pytest
from agent_env.bundle import load_bundle
from agent_env.episode import Engine
from agent_env.openenv import build_app
from agent_env.openenv.run import running_server
from agent_env.plugin.tools import ToolResult, ToolSpec
from agent_env.testing.in_process import InProcessDeployer, InProcessEnv
from websockets.asyncio.client import ClientConnection, connect

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
    from pathlib import Path

OBJECT: dict[str, Any] = {"type": "object"}
TOOLS = ("add", "slow", "refuse", "die", "big", "nan", "structured")


@dataclass
class World:
    """A bundle, its engine and what its envs saw.

    Attributes:
        engine: the engine.
        deployer: makes the envs.
        began: names of slow calls that began.
        cancelled: how many slow calls were cancelled.
    """

    engine: Engine
    deployer: InProcessDeployer
    began: list[str] = field(default_factory=list[str])
    cancelled: int = 0
    deploys: int = 0
    deploy_seconds: float = 0.0

    def left(self) -> int:
        return sum(1 for env in self.deployer.deployed if not env.closed)


def write_tasks(folder: Path, tasks: Mapping[str, list[dict[str, Any]]]) -> None:
    env = folder / "envs" / "calc"
    env.mkdir(parents=True)
    (env / "Dockerfile").write_text('FROM python:3.11-slim\nCMD ["python", "server.py"]\n')
    (folder / "tasks").mkdir()
    for name, steps in tasks.items():
        (folder / "tasks" / f"{name}.json").write_text(json.dumps(steps))


def task(*prompts: str, system_prompt: str | None = None) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = [
        {"id": "deploy", "type": "deploy_env", "env_id": "calc"},
        {"id": "agent", "type": "deploy_agent", "env_ids": ["calc"]},
    ]
    for number, prompt in enumerate(prompts, 1):
        step = {"id": f"ask{number}", "type": "prompt_agent", "prompt": prompt, "prompt_id": f"ask{number}"}
        if system_prompt is not None and number == 1:
            step["system_prompt"] = system_prompt
        steps.append(step)
    criteria = [{"type": "response_contains", "needles": ["done"]}]
    grade = {"id": "grade", "type": "agent_prompt_response_verifier", "prompt_id": f"ask{len(prompts)}"}
    return [*steps, {**grade, "criteria": criteria}]


def make_world(folder: Path) -> World:
    write_tasks(
        folder,
        {
            "add": task("Add 2 and 3.", system_prompt="You add."),
            "two": task("First.", "Second."),
            "day": task("Day <day>, seed <seed>."),
            "plain": task("Number <n>."),
        },
    )
    (folder / "tasks" / "plain.seeds.jsonl").write_text("".join(f'{{"n": {n}}}\n' for n in range(3)))
    (folder / "tasks" / "day.seeds.jsonl").write_text('{"id": "mon", "day": "Monday"}\n')
    (folder / "evals").mkdir()
    (folder / "evals" / "eval.toml").write_text('tasks = ["plain/*"]\n')
    (folder / "evals" / "single.toml").write_text('tasks = ["add", "two", "day/*"]\n')

    world: World

    def make() -> Any:
        env = InProcessEnv(specs=[ToolSpec(name, f"The tool {name}", OBJECT) for name in TOOLS])

        async def slow(given: Mapping[str, Any]) -> str:
            world.began.append(str(given.get("name", "")))
            try:
                await asyncio.sleep(float(given["seconds"]))
            except asyncio.CancelledError:
                world.cancelled += 1
                raise
            return f"slept {given.get('name', '')}"

        def die(_: Mapping[str, Any]) -> str:
            env.gone = "exit code 1"
            return ""

        env.tools = {
            "add": lambda given: str(given["a"] + given["b"]),
            "slow": slow,
            "refuse": lambda _: ToolResult([{"type": "text", "text": "not today"}], is_error=True),
            "die": die,
            "big": lambda given: "x" * int(given["size"]),
            "nan": lambda _: ToolResult([], structured={"value": float("nan")}),
            "structured": lambda _: ToolResult([{"type": "text", "text": "½ ok"}], structured={"value": 1}),
        }

        async def deploy() -> InProcessEnv:
            world.deploys += 1
            await asyncio.sleep(world.deploy_seconds)
            return env

        return deploy()

    deployer = InProcessDeployer({"calc": make})
    world = World(Engine(load_bundle(folder), deployer=deployer), deployer)
    return world


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_world(tmp_path / "calc-bundle")


class Serve(Protocol):
    def __call__(self, **options: Any) -> str: ...


@pytest.fixture
def serve(world: World) -> Iterator[Serve]:
    """Starts the world's server in a thread with its own event loop; gives its URL. At the end nothing is left."""
    stops: list[Callable[[], None]] = []

    def start(**options: Any) -> str:
        app = build_app("", engine=world.engine, **options)
        url: Future[str] = Future()
        loops: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

        async def run() -> None:
            leave = asyncio.Event()
            loops.append((asyncio.get_running_loop(), leave))
            try:
                async with running_server(app) as address:
                    url.set_result(address)
                    await leave.wait()
            except BaseException as error:
                if not url.done():
                    url.set_exception(error)
                raise

        thread = threading.Thread(target=asyncio.run, args=(run(),))
        thread.start()

        def stop() -> None:
            loop, leave = loops[0]
            loop.call_soon_threadsafe(leave.set)
            thread.join(30)
            assert not thread.is_alive()
            assert not app.state.hub.live
            assert app.state.hub.slots.active == 0

        address = url.result(30)
        stops.append(stop)
        return address

    yield start
    for stop in stops:
        stop()
    assert world.left() == 0
    assert world.engine.open_episodes == 0


class Raw:
    """A WebSocket that says what it is told."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    async def send(self, message: object) -> None:
        await self.socket.send(message if isinstance(message, str | bytes) else json.dumps(message))

    async def read(self, timeout: float = 20.0) -> dict[str, Any]:
        async with asyncio.timeout(timeout):
            return cast("dict[str, Any]", json.loads(await self.socket.recv()))

    async def ask(self, message: object, timeout: float = 20.0) -> dict[str, Any]:
        await self.send(message)
        return await self.read(timeout)

    async def reset(self, split: str = "single", index: int = 0, **more: Any) -> dict[str, Any]:
        return await self.ask({"type": "reset", "data": {"split": split, "index": index, **more}})

    async def call(self, tool: str, *, notes: dict[str, Any] | None = None, **arguments: Any) -> dict[str, Any]:
        return await self.ask(call(tool, arguments, notes))

    async def closed(self, timeout: float = 20.0) -> int:
        async with asyncio.timeout(timeout):
            await self.socket.wait_closed()
        return self.socket.close_code or 0


def call(tool: str, arguments: Any, notes: dict[str, Any] | None = None) -> dict[str, Any]:
    action: dict[str, Any] = {"type": "call_tool", "tool_name": tool, "arguments": arguments}
    if notes is not None:
        action["metadata"] = {"agentenv": notes}
    return {"type": "step", "data": action}


class OpenRaw(Protocol):
    def __call__(
        self, url: str, path: str = "/ws", *, token: str | None = None
    ) -> contextlib.AbstractAsyncContextManager[Raw]: ...


@pytest.fixture(name="call")
def call_fixture() -> Callable[..., dict[str, Any]]:
    """Builds the message of a tool call."""
    return call


@pytest.fixture
def raw() -> OpenRaw:
    @contextlib.asynccontextmanager
    async def open_raw(url: str, path: str = "/ws", *, token: str | None = None) -> AsyncGenerator[Raw, None]:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        address = url.replace("http://", "ws://") + path
        async with connect(address, additional_headers=headers, proxy=None, max_size=None) as socket:
            yield Raw(socket)

    return open_raw


@pytest.fixture
def until() -> Callable[[Callable[[], bool]], Any]:
    """Waits for something that another task or thread brings about."""

    async def wait(true: Callable[[], bool], seconds: float = 20.0) -> None:
        async with asyncio.timeout(seconds):
            while not true():  # noqa: ASYNC110 the other side is another thread
                await asyncio.sleep(0.01)

    return wait
