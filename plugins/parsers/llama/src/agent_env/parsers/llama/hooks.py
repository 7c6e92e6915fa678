"""What this distribution offers."""

from __future__ import annotations

from agent_env.plugin import ParserInfo, hookimpl


@hookimpl
def agentenv_parsers() -> list[ParserInfo]:
    """The parsers of this distribution."""
    package = "agent_env.parsers.llama"
    return [
        ParserInfo(
            "llama3_json",
            "JSON objects with name and parameters, after <|python_tag|> or alone",
            f"{package}.llama3_json:Llama3JsonParser",
            ("Llama 3.1", "Llama 3.2", "Llama 3.3"),
        ),
        ParserInfo(
            "pythonic",
            "A list of Python calls",
            f"{package}.pythonic:PythonicParser",
            ("Llama 3.2", "Llama 4", "OLMo 3"),
        ),
    ]
