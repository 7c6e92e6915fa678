"""Extensions over REST."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qsl

from agent_env.env import jsonrpc
from agent_env.env.context import caller
from agent_env.env.exceptions import ExtensionError
from agent_env.env.http.responses import Response
from agent_env.env.running import log_defect
from agent_env.env.types.jsonable import to_json

if TYPE_CHECKING:
    from agent_env.env.access import Action, ToolAccess
    from agent_env.env.http.requests import Request
    from agent_env.env.running import Runner
    from agent_env.env.spec import ExtensionHandler


async def call_extension(handler: ExtensionHandler, runner: Runner, request: Request) -> Response:
    """Answer one request to an extension."""
    try:
        keywords = _keywords(handler, request)
    except ExtensionError as error:
        return error_response(error)
    try:
        value = await runner.call(handler.attribute, handler.is_async, **keywords)
        return Response(200, jsonrpc.dumps({} if value is None else to_json(value)))
    except ExtensionError as error:
        return error_response(error)
    except Exception as error:  # noqa: BLE001 - a defect of the env's code is answered and logged
        log_defect(f"extension {handler.mark.uri} {handler.operation}", error)
        return error_response(ExtensionError(str(error) or type(error).__name__, status=500, applied="unknown"))


def change_access(access: ToolAccess, action: Action, request: Request) -> Response:
    """Answer a tool-access request."""
    try:
        return Response(200, jsonrpc.dumps(access.change(action, _json_body(request))))
    except ExtensionError as error:
        return error_response(error)


def error_response(error: ExtensionError) -> Response:
    """An error in the shape that the protocol has for extensions."""
    body: dict[str, Any] = {
        "code": error.code,
        "message": str(error),
        "retryable": error.retryable,
        "applied": error.applied,
    }
    if error.hint is not None:
        body["hint"] = error.hint
    return Response(error.status, jsonrpc.dumps({"ok": False, "error": body}))


def _keywords(handler: ExtensionHandler, request: Request) -> dict[str, Any]:
    params: object = dict(parse_qsl(request.query, keep_blank_values=True))
    if handler.mark.method != "GET":
        params = _json_body(request)
    if not isinstance(params, dict):
        raise ExtensionError("the body must be a JSON object", code="invalid_params")
    keywords, problems = handler.signature.read(cast("dict[str, object]", params), lax=True)
    if problems:
        raise ExtensionError("; ".join(problems), code="invalid_params")
    if handler.signature.context is not None:
        keywords[handler.signature.context] = caller(handler.operation, None, request.headers)
    return keywords


def _json_body(request: Request) -> object:
    try:
        return jsonrpc.loads(request.body) if request.body.strip() else {}
    except ValueError as error:
        raise ExtensionError(f"the body is no JSON: {error}", code="invalid_params") from error
