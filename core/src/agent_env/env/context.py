"""Who calls a tool."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Mapping

ROLE_HEADER = "agentenv-role"
ROLE_META = "agentenv.io/role"
SESSION_META = "agentenv.io/session"
DEFAULT_ROLE = "default"


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Give a tool or extension a parameter of this type to learn who calls; models never see the parameter.

    Attributes:
        role: the caller's role, `None` for the default one.
        session: tells callers apart, `None` when the caller has no session.
        tool: name of the tool or extension that was called.
        meta: MCP ``_meta`` of the call.
    """

    role: str | None = None
    session: str | None = None
    tool: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])


def caller(name: str, meta: object, headers: Mapping[str, str]) -> ToolContext:
    """The context of a call. A role in ``_meta`` was stamped by a gateway: the headers are then the gateway's own."""
    found = cast("dict[str, Any]", meta) if isinstance(meta, dict) else {}
    forwarded = ROLE_META in found
    role = found.get(ROLE_META) if forwarded else headers.get(ROLE_HEADER)
    session = found.get(SESSION_META)
    if not isinstance(session, str) or not session:
        session = None if forwarded else headers.get("mcp-session-id")
    return ToolContext(normal_role(role), session or None, name, found)


def normal_role(role: object) -> str | None:
    """The role, `None` for none, a blank one and the default."""
    word = role.strip() if isinstance(role, str) else ""
    return None if word in ("", DEFAULT_ROLE) else word
