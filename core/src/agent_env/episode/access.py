"""Rules of tool access that the engine keeps for an env that does not keep them itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent_env.plugin.tools import ToolSpec

ANY = "*"


class ToolAccess:
    """Which tools a role may see and call. A rule of the role goes before a rule of everybody; no rule = visible."""

    __slots__ = ("_rules",)

    def __init__(self) -> None:
        self._rules: dict[str, dict[str, bool]] = {}

    def change(self, role: str, tools: Sequence[str], *, allow: bool) -> None:
        """Add a rule. ``"*"`` as the role means everybody, among the tools it means all of them."""
        if ANY in tools:
            if role == ANY:
                self._rules = {}
            self._rules[role] = {ANY: allow}
            return
        named = dict.fromkeys(tools, allow)
        self._rules.setdefault(role, {}).update(named)
        if role == ANY:
            for rules in self._rules.values():
                rules.update(named)

    def allows(self, tool: str, role: str | None) -> bool:
        """Whether the role (`None` = no role) may call the tool."""
        for name in (role, ANY):
            rules = self._rules.get(name) if name is not None else None
            if rules:
                if tool in rules:
                    return rules[tool]
                if ANY in rules:
                    return rules[ANY]
        return True

    def visible(self, tools: Sequence[ToolSpec], role: str | None) -> tuple[ToolSpec, ...]:
        """The tools that the role sees."""
        return tuple(tool for tool in tools if self.allows(tool.name, role))
