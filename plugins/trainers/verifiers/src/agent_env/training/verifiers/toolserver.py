"""An MCP server for the tools of all open episodes of this process, each under an address that cannot be guessed.

It runs while an episode is shared. Its clients are verifiers' harness programs on this machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from agent_env.training.verifiers.third_party import third_party

if TYPE_CHECKING:
    from agent_env.training.verifiers.episode import Episode

_playing: ContextVar[Episode] = ContextVar("agentenv_episode")
_servers: dict[asyncio.AbstractEventLoop, _Server] = {}


async def share(episode: Episode) -> str:
    """The address of the episode's tools; give it back with `withdraw`."""
    loop = asyncio.get_running_loop()
    server = _servers.get(loop)
    if server is None:
        server = _servers[loop] = _Server()
    key = secrets.token_urlsafe(24)
    server.episodes[key] = episode
    try:
        await server.started()
    except BaseException:
        await withdraw(f"/{key}/mcp")
        raise
    return f"http://127.0.0.1:{server.port}/{key}/mcp"


async def withdraw(address: str) -> None:
    """No more tools at ``address``; with the last one the server ends."""
    loop = asyncio.get_running_loop()
    server = _servers.get(loop)
    if server is None:
        return
    server.episodes.pop(address.rsplit("/", 2)[1], None)
    if not server.episodes:
        del _servers[loop]
        await server.stop()


class _Server:
    """One server on one event loop."""

    def __init__(self) -> None:
        self.episodes: dict[str, Episode] = {}
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port: int = self._socket.getsockname()[1]
        uvicorn = third_party("uvicorn")
        config = uvicorn.Config(
            self._app(), log_level="critical", lifespan="on", timeout_graceful_shutdown=1, access_log=False
        )
        self._uvicorn = uvicorn.Server(config)
        self._uvicorn.capture_signals = contextlib.nullcontext  # signals are the trainer's
        self._task = asyncio.get_running_loop().create_task(self._uvicorn.serve(sockets=[self._socket]))

    async def started(self) -> None:
        """Return when it answers."""
        while not self._uvicorn.started:
            if self._task.done():
                self._task.result()
                raise RuntimeError("the server of the tools did not start")
            await asyncio.sleep(0.005)

    async def stop(self) -> None:
        """End it."""
        self._uvicorn.should_exit = True
        try:
            await asyncio.wait({self._task}, timeout=5)
        finally:
            self._task.cancel()
            self._socket.close()

    def _app(self) -> Any:
        lowlevel = third_party("mcp.server.lowlevel")
        server = lowlevel.Server("agentenv", on_list_tools=_list_tools, on_call_tool=_call_tool)
        inner = server.streamable_http_app(json_response=True, stateless_http=True)

        async def app(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] != "http":
                await inner(scope, receive, send)
                return
            key, _, rest = str(scope["path"]).removeprefix("/").partition("/")
            episode = self.episodes.get(key)
            if episode is None:
                await send({"type": "http.response.start", "status": 404, "headers": []})
                await send({"type": "http.response.body", "body": b"no such episode"})
                return
            token = _playing.set(episode)
            try:
                path = f"/{rest}"
                await inner({**scope, "path": path, "raw_path": path.encode()}, receive, send)
            finally:
                _playing.reset(token)

        return app


async def _list_tools(context: Any, params: Any) -> Any:  # noqa: ARG001 - as the library calls it
    types = third_party("mcp.types")
    return types.ListToolsResult(
        tools=[
            types.Tool.model_validate(
                {"name": spec.name, "description": spec.description, "inputSchema": dict(spec.input_schema)}
            )
            for spec in _playing.get().specs
        ]
    )


async def _call_tool(context: Any, params: Any) -> Any:  # noqa: ARG001 - as above
    types = third_party("mcp.types")
    text = await _playing.get().call(params.name, params.arguments or {})
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])
