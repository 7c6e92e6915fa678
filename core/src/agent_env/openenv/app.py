"""`build_app`: a FastAPI application that serves every task of a bundle over OpenEnv."""

from __future__ import annotations

import logging
import re
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from agent_env.errors import UsageError
from agent_env.openenv.security import Guard, GuardMiddleware, check_token
from agent_env.openenv.server.http import add_routes
from agent_env.openenv.server.hub import Hub
from agent_env.openenv.server.mcp_ws import McpRoute
from agent_env.openenv.server.tasks import add_task_routes
from agent_env.openenv.server.ws import WsRoute
from agent_env.openenv.wire import MAX_MESSAGE_BYTES
from fastapi import FastAPI
from starlette.routing import WebSocketRoute

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping

    from agent_env.bundle import Bundle
    from agent_env.episode import Engine
    from agent_env.plugin.sandbox import Isolation, SandboxProvider
    from agent_env.registry import Registry
    from starlette.types import Receive, Scope, Send

logger = logging.getLogger("agent_env.openenv")

OPENENV_VERSION = "1.0.0"
"""OpenAPI version, the constant of OpenEnv servers."""


class BundleApp(FastAPI):
    """A FastAPI application whose own WebSockets skip the layers that FastAPI puts around every request.

    Those cost as much as a whole no-op episode. They are not skipped when somebody added middleware, which may be
    meant to see the connections.
    """

    def serve_websockets(self, guard: Guard, routes: Mapping[str, Any]) -> None:
        """Serve these paths behind ``guard``, also through the router, so that they are among `routes`."""
        for path, endpoint in routes.items():
            self.router.routes.append(WebSocketRoute(path, endpoint, name=f"websocket {path}"))
        self._direct = routes
        self._guard = guard
        self._layers = len(self.user_middleware)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI application."""
        if scope["type"] == "websocket" and len(self.user_middleware) == self._layers and not scope.get("root_path"):
            endpoint = self._direct.get(scope["path"])
            if endpoint is not None:
                scope["app"] = self
                if await self._guard.lets_in(scope, receive, send):
                    await endpoint(scope, receive, send)
                return
        await super().__call__(scope, receive, send)


def build_app(
    bundle: str | Path | Bundle,
    *,
    reward: str | Callable[..., Any] | None = None,
    sandbox: str | SandboxProvider | None = None,
    max_concurrent_envs: int = 8,
    token: str | None = None,
    sandbox_options: Mapping[str, Mapping[str, str]] | None = None,
    isolation: Isolation | None = None,
    warm: int = 0,
    registry: Registry | None = None,
    engine: Engine | None = None,
    progress: Callable[[str], None] | None = None,
    session_lease: float = 900.0,
    shutdown_deadline: float = 10.0,
    max_message_bytes: int = MAX_MESSAGE_BYTES,
) -> FastAPI:
    """The application that serves ``bundle``; run it with `agent_env.openenv.run.run` or any ASGI server, one worker.

    Args:
        bundle: the bundle's folder, or a bundle that is read already.
        reward: what is trained on: a scoring step, a combiner's spec, or a function of the scores.
        sandbox: sandbox provider by name or object, or several names with commas: the next one takes over while one
            is out of quota or out of reach; `None` = ``process``.
        max_concurrent_envs: sessions at once; beyond it a client is refused or waits in line, as it asks.
        token: what every request and WebSocket but ``/health`` must send as ``Authorization: Bearer``.
        sandbox_options: options by provider's name.
        isolation: the least isolation that will do.
        warm: ready envs to keep for each env that tasks deploy; a reset takes one of them.
        registry: where plugins are found; `None` = those that are installed.
        engine: an engine of your own; ``reward``, ``sandbox``, ``sandbox_options``, ``isolation``, ``warm`` and
            ``registry`` belong to it then, and ``bundle`` must be the engine's.
        progress: called with lines on what is prepared when the server starts.
        session_lease: seconds after which a session that was created over HTTP and that nobody uses or holds ends.
        shutdown_deadline: seconds to tear down open episodes in when the server stops.
        max_message_bytes: largest frame or body, in both directions. The WebSocket limit of the ASGI server stands
            before it: `agent_env.openenv.run` sets it alike, uvicorn alone closes with 1009 over 16 MiB.

    Raises:
        BundleError: the bundle cannot be read, or none of its tasks can be played.
        RewardError: the reward cannot work.
        UsageError: an argument makes no sense.
    """
    checked = check_token(token)
    if engine is None:
        engine = _make_engine(bundle, reward, sandbox, sandbox_options, isolation, registry, warm)
    elif warm or any(value is not None for value in (reward, sandbox, sandbox_options, isolation, registry)):
        raise UsageError(
            "reward, sandbox, sandbox_options, isolation, warm and registry belong to the engine that you give"
        )
    hub = Hub(
        engine,
        limit=max_concurrent_envs,
        lease_s=session_lease,
        shutdown_deadline=shutdown_deadline,
        max_message_bytes=max_message_bytes,
        progress=progress,
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None, None]:
        try:
            await hub.start()
            yield
        finally:
            await hub.stop()

    served = engine.bundle
    app = BundleApp(title=served.name, description=served.description, version=OPENENV_VERSION, lifespan=lifespan)
    app.state.hub = hub
    app.state.engine = engine
    app.state.protected = checked is not None
    add_routes(app, hub, _version())
    add_task_routes(app, hub, env_name(served.name))
    guard = Guard(checked, max_body=max_message_bytes)
    app.add_middleware(cast("Any", GuardMiddleware), guard=guard)
    app.serve_websockets(guard, {"/ws": WsRoute(hub), "/mcp": McpRoute(hub)})
    return app


def env_name(bundle_name: str) -> str:
    """The environment's name in the paths of the task API."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", bundle_name).strip("-") or "env"


def _make_engine(
    bundle: str | Path | Bundle,
    reward: str | Callable[..., Any] | None,
    sandbox: str | SandboxProvider | None,
    sandbox_options: Mapping[str, Mapping[str, str]] | None,
    isolation: Isolation | None,
    registry: Registry | None,
    warm: int,
) -> Engine:
    from agent_env.bundle import load_bundle
    from agent_env.episode import Engine

    loaded = load_bundle(bundle, registry) if isinstance(bundle, str | Path) else bundle
    return Engine(
        loaded,
        registry=registry,
        reward=reward,
        sandbox=sandbox,
        sandbox_options=sandbox_options,
        isolation=isolation,
        warm=warm,
    )


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("agentenv-core")
    except PackageNotFoundError:
        return "0"
