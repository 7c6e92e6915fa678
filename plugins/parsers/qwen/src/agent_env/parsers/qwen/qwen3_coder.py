"""``<tool_call><function=NAME><parameter=KEY>`` VALUE ``</parameter></function></tool_call>``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent_env.plugin.parsing import TagParser, render_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Qwen3CoderParser(TagParser):
    """The format of Qwen3-Coder."""

    name = "qwen3_coder"
    wrappers = ("<tool_call>",)
    wrapper_ends = ("</tool_call>",)
    call_open = "<function="
    call_rest = r"([^<>\n]*)(?:>|(?=\n))"
    call_close = "</function>"
    parameter_open = "<parameter="
    parameter_rest = r"([^<>\n]*)(?:>|(?=\n))"
    parameter_close = "</parameter"
    parameter_close_rest = r"\w*/?>"
    repairs_closing = True
    trims_newline = True
    wrapper_is_section = False

    def render(self, calls: Sequence[Mapping[str, Any]]) -> str | None:
        """One block a call; `None` when a name or value cannot be written so that it is read again."""
        blocks: list[str] = []
        for call in calls:
            lines = ["<tool_call>", f"<function={call['name']}>"]
            for key, value in call["arguments"].items():
                lines += [f"<parameter={key}>", render_value(value), "</parameter>"]
            blocks.append("\n".join([*lines, "</function>", "</tool_call>"]))
        return self.only_if_read_again("\n".join(blocks), calls)
