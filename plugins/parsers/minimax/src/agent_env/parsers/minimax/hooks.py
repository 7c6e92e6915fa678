"""What this distribution offers."""

from __future__ import annotations

from agent_env.plugin import ParserInfo, hookimpl


@hookimpl
def agentenv_parsers() -> list[ParserInfo]:
    """The parser of this distribution."""
    return [
        ParserInfo(
            "minimax_m2",
            "<invoke> and <parameter> in <minimax:tool_call> tags",
            "agent_env.parsers.minimax.minimax_m2:MiniMaxM2Parser",
            ("MiniMax M2",),
        )
    ]
