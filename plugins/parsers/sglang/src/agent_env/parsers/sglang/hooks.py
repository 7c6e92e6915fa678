"""What this distribution offers: one parser for each of SGLang's, named ``sglang_<name>``."""

from __future__ import annotations

from agent_env.plugin import ParserInfo, hookimpl

#: SGLang's names for its parsers.
NAMES = (
    "deepseekv3",
    "deepseekv31",
    "deepseekv32",
    "glm45",
    "gpt-oss",
    "hermes",
    "kimi_k2",
    "llama3",
    "minimax-m2",
    "mistral",
    "pythonic",
    "qwen25",
    "qwen3_coder",
    "step3",
)


def attribute(name: str) -> str:
    """The name without the dashes that SGLang writes in some."""
    return name.replace("-", "_")


@hookimpl
def agentenv_parsers() -> list[ParserInfo]:
    """The parsers of this distribution."""
    return [
        ParserInfo(
            f"sglang_{attribute(name)}",
            f"SGLang's own parser {name}; needs sglang in the same environment",
            f"agent_env.parsers.sglang.parser:{attribute(name)}",
        )
        for name in NAMES
    ]
