"""Notices call markup in a reply's text: the engine was started without the parser for the model's format."""

# ruff: noqa: RUF001  models write these bars and blocks

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Markup:
    """Call markup that nobody parsed.

    Attributes:
        found: the marker as it stands in the text.
        parsers: names for SGLang's ``--tool-call-parser`` that read this format, the likeliest first.
    """

    found: str
    parsers: tuple[str, ...]

    def __str__(self) -> str:
        names = " or ".join(self.parsers)
        return (
            f"the reply holds the call markup {self.found!r}, but the engine returned no tool call: "
            f"start SGLang with --tool-call-parser {names} (in Miles: --sglang-tool-call-parser), "
            "or, when it has that flag already, the model wrote a broken call"
        )


# The first that matches wins, so a format that contains another one's marker stands above it.
_FORMATS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"<tool_call>\s*<function=", ("qwen3_coder",)),
    (r"<tool_call>[^<{\[]*<arg_key>", ("glm45", "glm47")),
    (r"<tool_calls>\s*<tool_call>", ("hunyuan",)),
    (r"<minimax:tool_call>", ("minimax-m2",)),
    (r"<tool_call>", ("qwen25", "hermes")),
    (r"<\|tool_call>", ("gemma4",)),
    (r"<\|python_tag\|>", ("llama3",)),
    (r"\[TOOL_CALLS\]", ("mistral",)),
    (r"<\|tool_calls_section_begin\|>|<\|tool_call_begin\|>", ("kimi_k2",)),
    (r"<｜DSML｜(?:function|tool)_calls>", ("deepseekv32", "deepseekv4")),
    (r"<｜tool▁calls▁begin｜>|<｜tool▁call▁begin｜>", ("deepseekv3", "deepseekv31")),
    (r"<｜tool_calls_begin｜>|<steptml:invoke ", ("step3",)),
    (r"<\|tool_call_start\|>", ("lfm2",)),
    (r"<\|channel\|>commentary to=functions\.|\bto=functions\.\w", ("gpt-oss",)),
    (r"<\|action_start\|>\s*<\|plugin\|>", ("interns1",)),
    (r"<\|START_ACTION\|>", ("cohere_command4",)),
    (r"<\|tools_prefix\|>", ("apertus2509",)),
    (r"<\|function_call\|>", ("gigachat3",)),
    (r"<dots_function_call>", ("dots",)),
    (r"<function=\w", ("qwen3_coder",)),
    (r"<function name=\"", ("minicpm5",)),
)
_COMPILED = tuple((re.compile(pattern), parsers) for pattern, parsers in _FORMATS)


def find_markup(text: str) -> Markup | None:
    """The call markup in ``text``, `None` when there is none."""
    for pattern, parsers in _COMPILED:
        match = pattern.search(text)
        if match is not None:
            return Markup(match.group(0)[:60], parsers)
    return None
