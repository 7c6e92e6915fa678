"""What this distribution offers."""

from __future__ import annotations

from agent_env.plugin import ParserInfo, hookimpl


@hookimpl
def agentenv_parsers() -> list[ParserInfo]:
    """The parsers of this distribution."""
    package = "agent_env.parsers.qwen"
    return [
        ParserInfo(
            "hermes",
            "JSON objects in <tool_call> tags",
            f"{package}.hermes:HermesParser",
            ("Hermes 2 Pro", "Hermes 3", "Qwen 2.5", "Qwen 3"),
        ),
        ParserInfo(
            "qwen25", "JSON objects in <tool_call> tags", f"{package}.hermes:Qwen25Parser", ("Qwen 2.5", "Qwen 3")
        ),
        ParserInfo(
            "qwen3_coder",
            "<function=...> and <parameter=...> in <tool_call> tags",
            f"{package}.qwen3_coder:Qwen3CoderParser",
            ("Qwen3-Coder", "Qwen 3.5"),
        ),
    ]
