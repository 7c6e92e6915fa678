from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.errors import PluginLoadError
from agent_env.parsers.sglang.hooks import agentenv_parsers
from agent_env.registry import Registry

if TYPE_CHECKING:
    from agent_env.plugin.parser import ToolCallParser

TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}
]
HAS_SGLANG = importlib.util.find_spec("sglang") is not None


def test_every_parser_is_found() -> None:
    registry = Registry()
    for info in agentenv_parsers():
        assert callable(registry.load("parser", info.name))


@pytest.mark.skipif(HAS_SGLANG, reason="sglang is installed")
def test_without_sglang_the_message_says_what_to_do() -> None:
    with pytest.raises(PluginLoadError, match=r"sglang_qwen25.*pip install sglang"):
        Registry().load("parser", "sglang_qwen25")()


@pytest.mark.skipif(not HAS_SGLANG, reason="sglang is not installed")
def test_hands_over() -> None:
    parser: ToolCallParser = Registry().load("parser", "sglang_qwen25")()
    (call,) = parser.parse('<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>', TOOLS).calls
    assert (call.status, call.name, call.arguments) == ("OK", "now", {})
