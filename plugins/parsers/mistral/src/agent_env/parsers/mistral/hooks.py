"""What this distribution offers."""

from __future__ import annotations

from agent_env.plugin import ParserInfo, hookimpl


@hookimpl
def agentenv_parsers() -> list[ParserInfo]:
    """The parser of this distribution."""
    return [
        ParserInfo(
            "mistral",
            "[TOOL_CALLS] with a JSON array, or with NAME[ARGS]{...}",
            "agent_env.parsers.mistral.mistral:MistralParser",
            ("Mistral", "Ministral", "Magistral", "Devstral"),
        )
    ]
