"""Tool-call parsers by their name."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from agent_env.plugin.parser import ToolCallParser


def load_parser(name: str) -> ToolCallParser:
    """One of our parsers.

    Raises:
        PluginError: none is installed under this name.
    """
    from agent_env.registry import default_registry

    return cast("ToolCallParser", default_registry().load("parser", name)())
