"""The servers that `bench/wire.py` measures, each in a process of its own: ``python bench/wire_servers.py KIND``.

Prints the port, then serves until SIGTERM.
"""

from __future__ import annotations

import asyncio
import json
import resource
import socket
import sys
import tempfile
from pathlib import Path
from typing import Any

MAX_SESSIONS = 20_000
NO_FILES = min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], 65_536)


def main() -> None:
    kind = sys.argv[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (NO_FILES, NO_FILES))
    {"agentenv": agentenv, "echo": echo, "openenv-mcp": openenv_mcp, "openenv-plain": openenv_plain}[kind]()


# -- ours -------------------------------------------------------------------------------------------------------------


def agentenv() -> None:
    """`build_app` on the real engine; the env is a function in the process: only wire and engine are measured."""
    from agent_env.bundle import load_bundle
    from agent_env.episode import Engine
    from agent_env.openenv import build_app
    from agent_env.openenv.run import run
    from agent_env.plugin.tools import ToolSpec
    from agent_env.testing.in_process import InProcessDeployer, InProcessEnv

    numbers = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
    specs = (ToolSpec("add", "Add two numbers", numbers),)

    def make() -> InProcessEnv:
        return InProcessEnv(tools={"add": lambda given: given["a"] + given["b"]}, specs=specs)

    with tempfile.TemporaryDirectory() as folder:
        bundle = load_bundle(write_bundle(Path(folder)))
        engine = Engine(bundle, deployer=InProcessDeployer({"adder": make}))
        app = build_app(bundle, engine=engine, max_concurrent_envs=MAX_SESSIONS)
        run(app, port=0, started=lambda url: print(url.rpartition(":")[2], flush=True))


def write_bundle(folder: Path) -> Path:
    """A bundle with one task that scores without running code."""
    env = folder / "envs" / "adder"
    env.mkdir(parents=True)
    (folder / "tasks").mkdir()
    (env / "Dockerfile").write_text('FROM python:3.11-slim\nCMD ["python", "server.py"]\n')
    steps: list[dict[str, Any]] = [
        {"id": "deploy", "type": "deploy_env", "env_id": "adder"},
        {"id": "agent", "type": "deploy_agent", "env_ids": ["adder"]},
        {"id": "ask", "type": "prompt_agent", "prompt": "Add.", "prompt_id": "ask"},
        {
            "id": "grade",
            "type": "agent_prompt_response_verifier",
            "prompt_id": "ask",
            "criteria": [{"type": "response_contains", "needles": ["done"]}],
        },
    ]
    (folder / "tasks" / "add.json").write_text(json.dumps(steps))
    return folder


# -- the floor --------------------------------------------------------------------------------------------------------


def echo() -> None:
    """A bare uvicorn WebSocket that sends back what it gets."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            while True:
                message = await receive()
                await send({"type": f"{message['type']}.complete"})
                if message["type"] == "lifespan.shutdown":
                    return
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "text": message["text"]})

    serve(app, ws_per_message_deflate=False)


# -- the peer ---------------------------------------------------------------------------------------------------------


def openenv_mcp() -> None:
    """A stock MCPEnvironment."""
    from fastmcp import FastMCP
    from openenv.core.env_server.http_server import create_fastapi_app
    from openenv.core.env_server.mcp_environment import MCPEnvironment
    from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation
    from openenv.core.env_server.types import Observation, State

    class Adder(MCPEnvironment):
        SUPPORTS_CONCURRENT_SESSIONS = True

        def __init__(self) -> None:
            mcp = FastMCP("adder")

            @mcp.tool
            def add(a: int, b: int) -> int:
                """Add two numbers"""
                return a + b

            @mcp.tool
            def end_turn(response: str) -> str:
                """End the turn"""
                return response

            super().__init__(mcp)

        def reset(self, **_: Any) -> Any:
            return Observation(done=False, reward=None, metadata={"prompt": "Add."})

        def _step_impl(self, *_: Any, **__: Any) -> Any:
            return Observation(done=False)

        @property
        def state(self) -> Any:
            return State()

    serve(create_fastapi_app(Adder, CallToolAction, CallToolObservation, max_concurrent_envs=MAX_SESSIONS))


def openenv_plain() -> None:
    """A stock plain Environment with the same actions, without FastMCP."""
    from openenv.core.env_server.http_server import create_fastapi_app
    from openenv.core.env_server.interfaces import Environment
    from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation, ListToolsObservation, Tool
    from openenv.core.env_server.types import Observation, State

    tool = Tool(name="add", description="Add two numbers", input_schema={"type": "object"})

    class Adder(Environment):  # type: ignore[type-arg]
        SUPPORTS_CONCURRENT_SESSIONS = True

        def reset(self, **_: Any) -> Any:
            return Observation(done=False, reward=None, metadata={"prompt": "Add."})

        def step(self, action: Any, **_: Any) -> Any:
            if not isinstance(action, CallToolAction):
                return ListToolsObservation(tools=[tool])
            if action.tool_name == "add":
                total = action.arguments["a"] + action.arguments["b"]
                return CallToolObservation(tool_name="add", result={"data": total})
            return CallToolObservation(tool_name="end_turn", result=None, done=True, reward=1.0)

        @property
        def state(self) -> Any:
            return State()

    serve(create_fastapi_app(Adder, CallToolAction, CallToolObservation, max_concurrent_envs=MAX_SESSIONS))


def serve(app: Any, **options: Any) -> None:
    import uvicorn

    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # asyncio sets NODELAY then
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_level="warning", access_log=False, backlog=4096, **options)
    server = uvicorn.Server(config)

    async def go() -> None:
        serving = asyncio.get_running_loop().create_task(server.serve(sockets=[listener]))
        while not server.started and not serving.done():
            await asyncio.wait([serving], timeout=0.01)
        print(listener.getsockname()[1], flush=True)
        await serving

    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(go())


if __name__ == "__main__":
    main()
