"""What this distribution offers."""

from __future__ import annotations

from agent_env.plugin import ParserInfo, hookimpl


@hookimpl
def agentenv_parsers() -> list[ParserInfo]:
    """The parsers of this distribution."""
    package = "agent_env.parsers.deepseek"
    return [
        ParserInfo(
            "deepseek_v3",
            "Name and fenced JSON between tool call tokens",
            f"{package}.tokens:DeepSeekV3Parser",
            ("DeepSeek V3", "DeepSeek R1"),
        ),
        ParserInfo(
            "deepseek_v31",
            "Name and JSON between tool call tokens",
            f"{package}.tokens:DeepSeekV31Parser",
            ("DeepSeek V3.1",),
        ),
        ParserInfo(
            "deepseek_v32",
            "DSML: invoke and parameter tags",
            f"{package}.dsml:DeepSeekV32Parser",
            ("DeepSeek V3.2",),
        ),
    ]
