"""What this distribution offers."""

from __future__ import annotations

from agent_env.plugin import ParserInfo, hookimpl


@hookimpl
def agentenv_parsers() -> list[ParserInfo]:
    """The parser of this distribution."""
    return [
        ParserInfo(
            "kimi_k2",
            "functions.NAME:0 and JSON between <|tool_call_...|> tokens",
            "agent_env.parsers.kimi.kimi_k2:KimiK2Parser",
            ("Kimi K2",),
        )
    ]
