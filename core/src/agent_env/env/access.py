"""Which role may use which tool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast

from agent_env.env.context import DEFAULT_ROLE
from agent_env.env.exceptions import ExtensionError

if TYPE_CHECKING:
    from collections.abc import Iterable

Action = Literal["disable", "enable"]
EVERY = "*"
ACTIONS: dict[Action, tuple[str, str, str]] = {
    "disable": ("urn:agentenv:disable-tool/v1", "/tools/disable", "Disable tools for a role."),
    "enable": ("urn:agentenv:enable-tool/v1", "/tools/enable", "Enable tools for a role."),
}
REQUEST_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "role": {"type": "string"},
        "tools": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"const": EVERY}]},
    },
    "required": ["role", "tools"],
}


class ToolAccess:
    """The rules that tool-access requests made.

    For a call's role and then for role ``*``, a rule that names the tool decides, else that role's ``*`` rule; a tool
    hidden by default heeds only rules that name it. No rule: visible, unless hidden by default.

    Attributes:
        changes: counts the changes, so that a cached listing can be told to be stale.
    """

    def __init__(self, hidden: Iterable[str] = ()) -> None:
        self._hidden = frozenset(hidden)
        self._disabled: dict[str, dict[str, bool]] = {}
        self.changes = 0

    def allows(self, role: str | None, tool: str) -> bool:
        """Whether the role may see and call the tool."""
        hidden = tool in self._hidden
        for key in (role or DEFAULT_ROLE, EVERY):
            rules = self._disabled.get(key, {})
            rule = rules.get(tool, None if hidden else rules.get(EVERY))
            if rule is not None:
                return not rule
        return not hidden

    def change(self, action: Action, body: object) -> dict[str, Any]:
        """Apply a request and answer the role's rules after it.

        Raises:
            ExtensionError: the request is malformed; nothing was changed.
        """
        fields = cast("dict[str, object]", body) if isinstance(body, dict) else {}
        role, tools = fields.get("role"), fields.get("tools")
        if not isinstance(role, str) or not role.strip():
            raise ExtensionError("'role' must be a role's name or '*'", code="invalid_params")
        names = [EVERY] if tools == EVERY else _names(tools)
        self.changes += 1
        for name in names:
            self._apply(role, name, disabled=action == "disable")
        rules = self._disabled.get(role, {})
        return {
            "role": role,
            "disabled": sorted(name for name, disabled in rules.items() if disabled),
            "allowed": sorted(name for name, disabled in rules.items() if not disabled),
        }

    def _apply(self, role: str, tool: str, *, disabled: bool) -> None:
        if role == EVERY and tool == EVERY:
            self._disabled = {EVERY: {EVERY: disabled}}
        elif tool == EVERY:
            self._disabled[role] = {EVERY: disabled}
        else:
            if role == EVERY:
                for rules in self._disabled.values():
                    rules[tool] = disabled
            self._disabled.setdefault(role, {})[tool] = disabled


def _names(value: object) -> list[str]:
    items = cast("list[object]", value) if isinstance(value, list) else [None]
    names = [item for item in items if isinstance(item, str)]
    if len(names) != len(items):
        raise ExtensionError("'tools' must be a list of tool names or '*'", code="invalid_params")
    return names
