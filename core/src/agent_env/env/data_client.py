"""Data operations of a running env: JSON-RPC at the path that its card names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from agent_env.env import jsonrpc
from agent_env.env.answers import JSON_HEADERS, read_json, refused
from agent_env.errors import EnvRequestError, EnvUnsupported

if TYPE_CHECKING:
    from agent_env.env.link import Link
    from agent_env.env.remote_card import RemoteCard

_TIMEOUTS = {"data/reset": 30.0, "data/add": 120.0, "data/get": 30.0}


async def call_data(
    link: Link, card: RemoteCard, operation: str, params: dict[str, Any], timeout: float | None
) -> dict[str, Any]:
    """Run a data operation; the default deadline is the operation's own.

    Raises:
        EnvUnsupported: the card does not list the operation.
        EnvRequestError: the env refused it.
        EnvError: the env failed.
    """
    if len(card.children) == 1:  # a gateway in front of one server
        card = card.children[0]
    if card.operations is not None and operation not in card.operations:
        served = ", ".join(card.operations) or "none"
        raise EnvUnsupported(f"env {link.name!r}: {operation} is not served by this env (served: {served})")
    try:
        body = jsonrpc.dumps({"jsonrpc": "2.0", "id": 1, "method": operation, "params": params})
    except (TypeError, ValueError) as error:
        raise link.error(f"{operation}: the parts are no JSON: {error}") from error
    seconds = _TIMEOUTS[operation] if timeout is None else timeout
    reply = await link.send("POST", card.rpc_path, what=operation, timeout=seconds, headers=JSON_HEADERS, body=body)
    if reply.status >= 400:
        raise refused(link, operation, reply)
    message = read_json(link, reply, operation)
    if not isinstance(message, dict):
        raise link.error(f"{operation}: the reply is no JSON-RPC object")
    fields = cast("dict[str, Any]", message)
    if fields.get("error") is not None:
        raise _refused(link, operation, fields["error"])
    result = fields.get("result")
    if not isinstance(result, dict):
        raise link.error(f"{operation}: the reply has no result object")
    return cast("dict[str, Any]", result)


def _refused(link: Link, operation: str, raw: object) -> EnvRequestError:
    error = cast("dict[str, Any]", raw) if isinstance(raw, dict) else {"message": raw}
    data: object = error.get("data")
    detail = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
    number = error.get("code")
    text = f"env {link.name!r}: {operation}: {error.get('message')}"
    if detail.get("detail"):
        text += f" ({detail['detail']})"
    code = detail.get("code") or number
    unheard = isinstance(number, int) and -32700 <= number <= -32600  # it never reached the handler
    return EnvRequestError(
        text, code=code if isinstance(code, str | int) else None, applied="no" if unheard else "unknown"
    )
