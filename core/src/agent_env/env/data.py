"""Data operations: JSON-RPC at ``/agentenv``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from agent_env.env import jsonrpc
from agent_env.env.http.responses import Response
from agent_env.env.jsonrpc import RpcError
from agent_env.env.running import log_defect
from agent_env.env.types.jsonable import to_json

if TYPE_CHECKING:
    from agent_env.env.http.requests import Request
    from agent_env.env.running import Runner
    from agent_env.env.spec import DataHandler, EnvSpec

_FAILED = {"data/reset": "reset_failed", "data/add": "add_failed", "data/get": "get_failed"}
_GRANT_KEYS = {"root_path", "expires_at", "max_objects", "max_object_bytes", "max_total_bytes", "write"}


class DataEndpoint:
    """What answers at ``/agentenv``."""

    def __init__(self, spec: EnvSpec, runner: Runner) -> None:
        self._handlers = spec.data
        self._runner = runner

    async def post(self, request: Request) -> Response:
        """Answer one request, always with HTTP 200."""
        request_id: Any = None
        try:
            try:
                message: object = jsonrpc.loads(request.body)
            except ValueError:
                raise RpcError(jsonrpc.PARSE_ERROR, "parse error") from None
            fields = cast("dict[str, Any]", message) if isinstance(message, dict) else {}
            request_id = fields.get("id")
            method = fields.get("method")
            if fields.get("jsonrpc") != "2.0" or not isinstance(method, str):
                raise RpcError(jsonrpc.INVALID_REQUEST, "invalid request")
            handler = self._handlers.get(cast("Any", method))
            if handler is None:
                raise RpcError(jsonrpc.METHOD_NOT_FOUND, f"method not found: {method}")
            result = await self._run(method, handler, fields.get("params"))
            return Response(200, jsonrpc.result_body(request_id, jsonrpc.dumps(result)))
        except RpcError as error:
            return Response(200, jsonrpc.error_body(request_id, error))

    async def _run(self, method: str, handler: DataHandler, raw: object) -> dict[str, Any]:
        params = _fields(raw if raw is not None else {}, "params")
        arguments: list[Any] = []
        keywords: dict[str, Any] = {}
        if method == "data/add":
            arguments.append(_parts(params))
        elif method == "data/get":
            grant = _grant(params)
            if handler.takes_grant:
                keywords["write_namespace"] = grant
            elif grant is not None:
                raise _invalid("this env's data/get takes no write_namespace")
        try:
            value = await self._runner.call(handler.attribute, handler.is_async, *arguments, **keywords)
            if method != "data/get":
                return {}
            result = {"parts": _without_nulls(to_json(list(value)))}
            jsonrpc.dumps(result)
            return result
        except Exception as error:
            log_defect(method, error)
            text = str(error) or type(error).__name__
            raise RpcError(jsonrpc.SERVER_ERROR, text, {"code": _FAILED[method]}) from error


def _parts(params: dict[str, Any]) -> list[dict[str, Any]]:
    parts = params.get("parts")
    if not isinstance(parts, list) or not parts:
        raise _invalid("parts: expected a list with at least one part")
    found: list[dict[str, Any]] = []
    for index, raw in enumerate(cast("list[object]", parts)):
        where = f"parts[{index}]"
        part = _fields(raw, where)
        match part.get("kind"):
            case "text" if isinstance(part.get("text"), str):
                pass
            case "data" if isinstance(part.get("data"), dict):
                pass
            case "file":
                file = _fields(part.get("file"), f"{where}.file")
                if not any(isinstance(file.get(key), str) for key in ("bytes", "uri")):
                    raise _invalid(f"{where}.file: expected the text field bytes or uri")
            case _:
                raise _invalid(f"{where}: expected a part of kind text, data or file with a field of that name")
        found.append(part)
    return found


def _grant(params: dict[str, Any]) -> dict[str, Any] | None:
    raw = params.get("write_namespace")
    if raw is None:
        return None
    grant = _fields(raw, "write_namespace")
    unknown = sorted(set(grant) - _GRANT_KEYS)
    if unknown:
        raise _invalid(f"write_namespace: unknown {', '.join(unknown)}")
    return grant


def _fields(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _invalid(f"{where}: expected an object")
    return cast("dict[str, Any]", value)


def _invalid(detail: str) -> RpcError:
    return RpcError(jsonrpc.INVALID_PARAMS, "invalid_request", {"detail": detail})


def _without_nulls(value: object) -> object:
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {key: _without_nulls(item) for key, item in fields.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in cast("list[object]", value)]
    return value
