"""One env object as an HTTP handler."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from agent_env.env import jsonrpc
from agent_env.env.access import ACTIONS, ToolAccess
from agent_env.env.card import CARD_PATH, MCP_PATH, RPC_PATH, make_card, tool_name
from agent_env.env.data import DataEndpoint
from agent_env.env.exceptions import ExtensionError
from agent_env.env.http.requests import Request
from agent_env.env.http.responses import Response, text_response
from agent_env.env.mcp import Answer, McpEndpoint
from agent_env.env.rest import call_extension, change_access, error_response
from agent_env.env.running import Runner
from agent_env.env.spec import spec_of
from agent_env.errors import UsageError

if TYPE_CHECKING:
    from agent_env.env.base import Env
    from agent_env.env.running import RunSync

Route = Callable[[Request], Answer]


class EnvApp:
    """All routes of one env."""

    def __init__(self, env: Env, run_sync: RunSync) -> None:
        spec = spec_of(type(env))
        name = spec.served_name
        names = [tool_name(tool, name) for tool in spec.tools]
        if len(set(names)) != len(names):
            raise UsageError(f"{type(env).__name__}: two tools have one name when the env is named {name!r}")
        self.name = name
        self._card = jsonrpc.dumps(make_card(spec, name))
        self._routes: dict[str, dict[str, Route]] = {}
        runner = Runner(env, run_sync)
        access: ToolAccess | None = None
        if spec.tool_access:
            access = ToolAccess(tool_name(tool, name) for tool in spec.tools if tool.mark.hidden_by_default)
            for action, (_, path, _) in ACTIONS.items():
                self._add("POST", path, partial(change_access, access, action))
        mcp = McpEndpoint(spec, name, runner, access)
        self._add("GET", CARD_PATH, lambda _: Response(200, self._card))
        self._add("POST", RPC_PATH, DataEndpoint(spec, runner).post)
        self._add("POST", MCP_PATH, mcp.post)
        self._add("DELETE", MCP_PATH, mcp.delete)
        for handler in spec.extensions:
            self._add(handler.mark.method, handler.path, partial(call_extension, handler, runner))

    def _add(self, method: str, path: str, route: Route) -> None:
        if method in self._routes.setdefault(path, {}):
            raise UsageError(f"{self.name}: {method} {path} is taken; give the extension another path")
        self._routes[path][method] = route

    def handle(self, request: Request) -> Answer:
        """Answer one request."""
        path = request.path
        routes = self._routes.get(path) or self._routes.get(path.rstrip("/"))
        if routes is None:
            message = f"nothing is served at {path[:200]}"
            return error_response(ExtensionError(message, code="not_found", status=404))
        route = routes.get("GET" if request.method == "HEAD" else request.method)
        if route is None:
            allowed = ", ".join(sorted([*routes, "HEAD"] if "GET" in routes else routes))
            return text_response(405, f"{path[:200]} takes {allowed}", {"allow": allowed})
        return route(request)
