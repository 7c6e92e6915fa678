"""Reading what an env answered to data operations and extensions."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, cast

from agent_env.env import jsonrpc
from agent_env.errors import EnvRequestError

if TYPE_CHECKING:
    from agent_env.env.http.replies import Reply
    from agent_env.env.link import Link

JSON_HEADERS = {"content-type": "application/json", "accept": "application/json"}


def excerpt(reply: Reply) -> str:
    """The beginning of a reply's body for a message, behind a colon; empty when there is none."""
    text = reply.body[:500].decode(errors="replace").strip()
    return f": {text}" if text else ""


def read_json(link: Link, reply: Reply, what: str) -> Any:
    """The JSON value of a reply.

    Raises:
        EnvError: it is none.
    """
    try:
        return jsonrpc.loads(reply.body)
    except ValueError as error:
        raise link.error(f"{what}: the reply is no JSON: {error}{excerpt(reply)}") from error


def refused(link: Link, what: str, reply: Reply) -> EnvRequestError:
    """The error for an HTTP status from 400; a body that is not the protocol's (a proxy's page) says nothing sure."""
    body: object = None
    with contextlib.suppress(ValueError):
        body = jsonrpc.loads(reply.body)
    raw = cast("dict[str, Any]", body).get("error") if isinstance(body, dict) else None
    fields = cast("dict[str, Any]", raw) if isinstance(raw, dict) else {}
    code, applied = fields.get("code"), fields.get("applied")
    text = str(fields.get("message") or "").strip() or excerpt(reply).removeprefix(": ") or "no message"
    hint = f" ({fields['hint']})" if fields.get("hint") else ""
    return EnvRequestError(
        f"env {link.name!r}: {what}: {text}{hint} [HTTP {reply.status}{f', {code}' if code else ''}]",
        code=code if isinstance(code, str | int) else None,
        applied=applied if applied in ("yes", "no") else "unknown",
        retryable=fields.get("retryable") is True,
    )
