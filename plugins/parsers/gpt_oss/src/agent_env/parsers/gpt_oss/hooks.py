"""What this distribution offers."""

from __future__ import annotations

from agent_env.plugin import ParserInfo, hookimpl


@hookimpl
def agentenv_parsers() -> list[ParserInfo]:
    """The parser of this distribution."""
    return [
        ParserInfo(
            "gpt_oss",
            "Harmony: channels, recipients and messages",
            "agent_env.parsers.gpt_oss.gpt_oss:GptOssParser",
            ("gpt-oss",),
        )
    ]
