"""Extensions of a running env: REST at the paths that its card names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from agent_env.env import jsonrpc
from agent_env.env.answers import JSON_HEADERS, read_json, refused
from agent_env.env.remote_card import CardError
from agent_env.errors import EnvUnsupported

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent_env.env.link import Link
    from agent_env.env.remote_card import RemoteCard


async def call_method(
    link: Link, card: RemoteCard, uri: str, method: str | None, params: Mapping[str, Any], timeout: float
) -> Any:
    """Call a method of an extension that the card lists.

    Raises:
        EnvUnsupported: the card does not list the extension.
        EnvRequestError: the env refused the call.
        EnvError: the env failed, or the extension has no such method.
    """
    what = f"extension {uri}"
    try:
        found = card.method(uri, method)
        target, body = _request_of(found.verb, found.path, params)
    except CardError as error:
        if not card.advertises(uri):
            raise EnvUnsupported(f"env {link.name!r}: {error}") from error
        raise link.error(str(error)) from error
    except (TypeError, ValueError) as error:
        raise link.error(f"{what}: the params are no JSON: {error}") from error
    reply = await link.send(found.verb, target, what=what, timeout=timeout, headers=JSON_HEADERS, body=body)
    if reply.status >= 400:
        raise refused(link, what, reply)
    return read_json(link, reply, what) if reply.body else {}


def _request_of(verb: str, path: str, params: Mapping[str, Any]) -> tuple[str, bytes]:
    """Target and body of a call."""
    if verb != "GET":
        return path, jsonrpc.dumps(dict(params))
    words = [(key, value if isinstance(value, str) else jsonrpc.dumps(value).decode()) for key, value in params.items()]
    query = urlencode(words)
    return (f"{path}{'&' if '?' in path else '?'}{query}" if query else path), b""
