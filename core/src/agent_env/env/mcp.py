"""MCP over streamable HTTP, the server's half: every reply is plain JSON."""

from __future__ import annotations

import os
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, cast

from agent_env.env import jsonrpc
from agent_env.env.card import listed_tool, tool_name
from agent_env.env.context import caller
from agent_env.env.exceptions import ToolError
from agent_env.env.http.responses import Response, text_response
from agent_env.env.jsonrpc import RpcError
from agent_env.env.nearest import nearest
from agent_env.env.results import error_result, tool_result
from agent_env.env.running import log_defect

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent_env.env.access import ToolAccess
    from agent_env.env.http.requests import Request
    from agent_env.env.running import Runner
    from agent_env.env.spec import EnvSpec

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
_MOST_SESSIONS = 10_000
Answer = Response | Coroutine[Any, Any, Response]


class McpEndpoint:
    """What answers at ``/mcp``."""

    def __init__(self, spec: EnvSpec, name: str, runner: Runner, access: ToolAccess | None) -> None:
        self._name = name
        self._runner = runner
        self._access = access
        self._tools = {tool_name(tool, name): tool for tool in spec.tools}
        self._listings: dict[tuple[str | None, int], bytes] = {}
        self._sessions: dict[str, None] = {}

    # -- HTTP --

    def post(self, request: Request) -> Answer:
        """Messages from the client."""
        try:
            message: object = jsonrpc.loads(request.body)
        except ValueError as error:
            return _rpc_error(None, RpcError(jsonrpc.PARSE_ERROR, f"the body is no JSON: {error}"))
        if isinstance(message, dict):
            fields = cast("dict[str, Any]", message)
            if fields.get("method") == "initialize" and "id" in fields:
                return self._initialize(fields)
            return self._check(request) or self._one(fields, request)
        if isinstance(message, list) and message:
            return self._check(request) or self._batch(cast("list[object]", message), request)
        return _rpc_error(None, RpcError(jsonrpc.INVALID_REQUEST, "expected a JSON-RPC message"))

    def delete(self, request: Request) -> Answer:
        """The client ends its session."""
        refused = self._check(request)
        if refused is None:
            self._sessions.pop(request.headers.get("mcp-session-id", ""), None)
        return refused or Response(204, b"", None)

    def _check(self, request: Request) -> Response | None:
        session = request.headers.get("mcp-session-id")
        if session is not None and session not in self._sessions:
            return _rpc_error(None, RpcError(jsonrpc.INVALID_REQUEST, "no such session"), 404)
        version = request.headers.get("mcp-protocol-version")
        if version is not None and version not in VERSIONS:
            return text_response(400, f"MCP-Protocol-Version {version[:40]!r} is none of {', '.join(VERSIONS)}")
        return None

    # -- messages --

    def _initialize(self, message: dict[str, Any]) -> Response:
        params = _params(message)
        asked = params.get("protocolVersion")
        result = {
            "protocolVersion": asked if asked in VERSIONS else VERSIONS[0],
            "capabilities": {"tools": {"listChanged": False}},
            "serverInfo": {"name": self._name, "version": "1.0"},
        }
        session = os.urandom(16).hex()
        self._sessions[session] = None
        if len(self._sessions) > _MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        body = jsonrpc.result_body(message["id"], jsonrpc.dumps(result))
        return Response(200, body, headers={"mcp-session-id": session})

    def _one(self, message: dict[str, Any], request: Request) -> Answer:
        if "method" not in message or "id" not in message:
            return self._without_answer(message)
        request_id: Any = message["id"]
        problem = _problem(message)
        if problem is not None:
            return _rpc_error(request_id, RpcError(jsonrpc.INVALID_REQUEST, problem))
        if message["method"] == "tools/call":
            return self._call(request_id, _params(message), request.headers)
        try:
            return Response(200, jsonrpc.result_body(request_id, self._quick(message, request.headers)))
        except RpcError as error:
            return _rpc_error(request_id, error, 200)

    def _without_answer(self, message: dict[str, Any]) -> Response:
        answer = "result" in message or "error" in message
        if message.get("jsonrpc") == "2.0" and (answer or isinstance(message.get("method"), str)):
            return Response(202, b"", None)
        return _rpc_error(None, RpcError(jsonrpc.INVALID_REQUEST, "expected a JSON-RPC message"))

    def _quick(self, message: dict[str, Any], headers: Mapping[str, str]) -> bytes:
        """Requests that need nothing of the env's code."""
        method = message["method"]
        if method == "ping":
            return b"{}"
        if method == "tools/list":
            return self._list(caller("", _params(message).get("_meta"), headers).role)
        raise RpcError(jsonrpc.METHOD_NOT_FOUND, f"method not found: {str(method)[:100]}")

    def _list(self, role: str | None) -> bytes:
        access = self._access
        key = (role if access is not None else None, access.changes if access is not None else 0)
        listing = self._listings.get(key)
        if listing is None:
            tools = [
                listed_tool(tool, self._name)
                for name, tool in self._tools.items()
                if access is None or access.allows(role, name)
            ]
            listing = jsonrpc.dumps({"tools": tools})
            if len(self._listings) > 64:
                self._listings.clear()
            self._listings[key] = listing
        return listing

    async def _call(self, request_id: Any, params: dict[str, Any], headers: Mapping[str, str]) -> Response:
        try:
            result = await self._run(params, headers)
            return Response(200, jsonrpc.result_body(request_id, jsonrpc.dumps(result)))
        except RpcError as error:
            return _rpc_error(request_id, error, 200)
        except (TypeError, ValueError, OverflowError) as error:
            log_defect(f"tool {params.get('name')}", error)
            text = f"tool {params.get('name')} returned what is no JSON: {error}"
            return _rpc_error(request_id, RpcError(jsonrpc.INTERNAL_ERROR, text), 200)

    async def _run(self, params: dict[str, Any], headers: Mapping[str, str]) -> dict[str, Any]:
        """Run a tool; what the model did wrong is a result, what the env did wrong a `RpcError`."""
        name, arguments = params.get("name"), params.get("arguments")
        if not isinstance(name, str):
            raise RpcError(jsonrpc.INVALID_PARAMS, "tools/call needs the tool's name")
        context = caller(name, params.get("_meta"), headers)
        tool = self._tools.get(name)
        if self._access is not None and tool is not None and not self._access.allows(context.role, name):
            return error_result(f"permission_denied: tool {name!r} is disabled for role {context.role or 'default'!r}")
        if tool is None:
            return error_result(_unknown(name, list(self._tools)))
        if arguments is not None and not isinstance(arguments, dict):
            return error_result(f"{name}: the arguments must be a JSON object")
        signature = tool.signature
        keywords, problems = signature.read(cast("dict[str, object]", arguments or {}))
        if problems:
            return error_result(f"{name}: {'; '.join(problems)}")
        if signature.context is not None:
            keywords[signature.context] = context
        try:
            value = await self._runner.call(tool.attribute, tool.is_async, **keywords)
        except ToolError as error:
            return error_result(str(error))
        except Exception as error:
            log_defect(f"tool {name}", error)
            raise RpcError(jsonrpc.INTERNAL_ERROR, f"tool {name} failed: {type(error).__name__}: {error}") from error
        return tool_result(value)

    async def _batch(self, messages: list[object], request: Request) -> Response:
        """A list of messages, as the protocol had it for a while."""
        bodies: list[bytes] = []
        for message in messages:
            fields = cast("dict[str, Any]", message) if isinstance(message, dict) else {}
            answer = self._one(fields, request)
            if not isinstance(answer, Response):
                answer = await answer
            if answer.body:
                bodies.append(cast("bytes", answer.body))
        return Response(200, b"[%b]" % b",".join(bodies)) if bodies else Response(202, b"", None)


def _params(message: dict[str, Any]) -> dict[str, Any]:
    params = message.get("params")
    return cast("dict[str, Any]", params) if isinstance(params, dict) else {}


def _problem(message: dict[str, Any]) -> str | None:
    request_id = message["id"]
    if message.get("jsonrpc") != "2.0":
        return 'expected "jsonrpc": "2.0"'
    if not isinstance(request_id, str | int) or isinstance(request_id, bool):
        return "the id must be a string or an integer"
    if not isinstance(message["method"], str):
        return "the method must be a string"
    if not isinstance(message.get("params", {}), dict):
        return "the params must be an object"
    return None


def _unknown(name: str, known: list[str]) -> str:
    near = nearest(name, known)
    hint = f"did you mean {near!r}?" if near else f"there are: {', '.join(known) or 'none'}"
    return f"unknown tool {name[:100]!r}; {hint}"


def _rpc_error(request_id: Any, error: RpcError, status: int = 400) -> Response:
    return Response(status, jsonrpc.error_body(request_id, error))
