"""JSON-RPC of ``/mcp``: sessions, ``tools/list`` and ``tools/call``, as stock OpenEnv servers speak it.

It is not a full MCP server: there is neither ``initialize`` nor a notification.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from agent_env.openenv.server.frames import BadMessage, Full, Refused
from agent_env.openenv.server.messages import CallTool, Reset, flaw, read_action, read_reset

if TYPE_CHECKING:
    from agent_env.openenv.server.frames import Observation
    from agent_env.openenv.server.hub import Hub
    from agent_env.openenv.server.play import Play

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
SERVER_ERROR = -32000

_KEYS = frozenset({"jsonrpc", "method", "params", "id"})
_TASK_KEYS = ("split", "index", "seed", "episode_id")


class RpcError(Exception):
    """An error of the protocol."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


def error_body(code: int, message: str, request_id: Any = None, data: Any = None) -> dict[str, Any]:
    """An error response."""
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message, "data": data}}


async def answer_rpc(hub: Hub, body: object, play: Play | None, ticket: int = 0) -> dict[str, Any]:
    """The response to a request; it never raises but when cancelled.

    Args:
        hub: the server.
        body: the request.
        play: the WebSocket's own session, or `None` over HTTP.
        ticket: of ``play``.
    """
    request_id: Any = None
    try:
        method, params, request_id = _check(body)
        result = await _dispatch(hub, method, params, play, ticket)
    except RpcError as error:
        return error_body(error.code, str(error), request_id, error.data)
    except BadMessage as error:
        return error_body(INVALID_PARAMS, f"Invalid params: {error.words}", request_id, {"errors": error.errors})
    except Refused as error:
        code = SERVER_ERROR if isinstance(error, Full) or error.code == "SESSION_ERROR" else INTERNAL_ERROR
        return error_body(code, str(error), request_id, error.extra or None)
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def _check(body: object) -> tuple[str, dict[str, Any], Any]:
    if not isinstance(body, dict):
        raise RpcError(INVALID_REQUEST, "Invalid request: the request must be an object")
    fields = cast("dict[str, Any]", body)
    problems: list[str] = [f"{key}: Extra inputs are not permitted" for key in fields.keys() - _KEYS]
    if fields.get("jsonrpc") != "2.0":
        problems.append("jsonrpc: Input should be '2.0'")
    method, params, request_id = fields.get("method"), fields.get("params", {}), fields.get("id")
    if not isinstance(method, str):
        problems.append("method: Input should be a valid string")
    if not isinstance(params, dict):
        problems.append("params: Input should be a valid dictionary")
    if isinstance(request_id, bool) or not isinstance(request_id, str | int | None):
        problems.append("id: Input should be a string, an integer or null")
    if problems:
        raise RpcError(INVALID_REQUEST, f"Invalid request: {'; '.join(problems)}")
    return cast("str", method), cast("dict[str, Any]", params), request_id


async def _dispatch(hub: Hub, method: str, params: dict[str, Any], play: Play | None, ticket: int) -> Any:
    if method == "openenv/session/create":
        if play is not None:
            return {"session_id": play.id}
        first = {key: params[key] for key in _TASK_KEYS if key in params}
        return {"session_id": hub.create(read_reset(first) if first else None).id}
    if method == "openenv/session/close":
        return await _close(hub, params, play)
    if method not in ("tools/list", "tools/call"):
        raise RpcError(METHOD_NOT_FOUND, f"Method not found: {method[:200]}")
    call = _call(params) if method == "tools/call" else None
    if play is not None:
        return await _tools(play, call, ticket)
    session_id = params.get("session_id")
    if session_id:
        session = hub.sessions.get(session_id) if isinstance(session_id, str) else None
        if session is None:
            raise RpcError(INVALID_PARAMS, f"Unknown session_id: {str(session_id)[:100]}")
        with hub.used(session):
            return await _tools(session, call, session.arrive(call))
    async with hub.once() as single:
        first = {key: params[key] for key in _TASK_KEYS if key in params}
        single.first = read_reset(first) if first or call is not None else None
        return await _tools(single, call, single.arrive(call))


async def _tools(play: Play, call: CallTool | None, ticket: int) -> Any:
    if call is None:
        return (await play.tools(ticket)).rpc
    reply = await play.play(call, ticket)
    return _result(reply)


def _result(reply: Observation) -> Any:
    """The result of a call; here a tool's failure is an error of the protocol, as with stock servers."""
    error = reply.observation.get("error")
    result = reply.observation.get("result")
    if error:
        code = INVALID_PARAMS if error["error_type"] in ("tool_not_found", "invalid_args") else INTERNAL_ERROR
        raise RpcError(code, error["message"], {"error_type": error["error_type"], **_notes(reply)})
    if result is None:
        raise RpcError(INTERNAL_ERROR, str(reply.metadata.get("error")), _notes(reply))
    if result["is_error"]:
        raise RpcError(INTERNAL_ERROR, result["data"], {"error_type": "execution_error", "result": result})
    return result


def _notes(reply: Observation) -> dict[str, Any]:
    return {"done": reply.done, "metadata": reply.metadata} if reply.done else {}


def _call(params: dict[str, Any]) -> CallTool:
    name = params.get("name")
    if not name or not isinstance(name, str):
        raise RpcError(INVALID_PARAMS, "Missing 'name' in params")
    arguments: Any = {} if params.get("arguments") is None else params["arguments"]
    action: dict[str, Any] = {
        "type": "call_tool",
        "tool_name": name,
        "arguments": {} if arguments is None else arguments,
    }
    if "metadata" in params:
        action["metadata"] = params["metadata"]
    call = read_action(action)
    if not isinstance(call, CallTool):
        raise BadMessage(flaw("value_error", "Not a call", "name"))
    return call


async def _close(hub: Hub, params: dict[str, Any], play: Play | None) -> dict[str, Any]:
    session_id = params.get("session_id")
    if not session_id or not isinstance(session_id, str):
        raise RpcError(INVALID_PARAMS, "Invalid params - 'session_id' is required")
    if play is not None and session_id == play.id:
        raise RpcError(INVALID_REQUEST, "Cannot close active WebSocket-managed session via MCP method")
    session = hub.sessions.get(session_id)
    if session is None:
        raise RpcError(INVALID_PARAMS, f"Unknown session_id: {session_id[:100]}")
    if session.attached:
        session.ending = True
        return {"session_id": session_id, "closed": False, "closing": True}
    del hub.sessions[session_id]
    hub.leases.drop(session_id)
    await asyncio.shield(hub.spawn(hub.finish(session, "closed")))
    return {"session_id": session_id, "closed": True}


def reset_of_query(query: dict[str, list[str]]) -> Reset | None:
    """The task that a WebSocket on ``/mcp`` names in its query, or `None`.

    Raises:
        BadMessage: it is incomplete or of the wrong form.
    """
    fields: dict[str, Any] = {key: query[key][-1] for key in _TASK_KEYS if key in query}
    for key in ("index", "seed"):
        if key in fields and fields[key].isdecimal():
            fields[key] = int(fields[key])
    return read_reset(fields) if fields else None
