"""``<minimax:tool_call><invoke name="NAME"><parameter name="KEY">`` VALUE ``</parameter></invoke>``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent_env.plugin.parsing import TagParser, render_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class MiniMaxM2Parser(TagParser):
    """The format of MiniMax M2."""

    name = "minimax_m2"
    wrappers = ("<minimax:tool_call>",)
    wrapper_ends = ("</minimax:tool_call>",)
    call_open = "<invoke name="
    call_rest = r"""["']?([^"'<>\n]*)["']?[ \t]*>"""
    call_close = "</invoke>"
    parameter_open = "<parameter name="
    parameter_rest = r"""["']?([^"'<>\n]*)["']?[ \t]*>"""
    parameter_close = "</parameter"
    bare_calls = False

    def render(self, calls: Sequence[Mapping[str, Any]]) -> str | None:
        """One block; `None` when a name or value cannot be written so that it is read again."""
        lines = ["<minimax:tool_call>"]
        for call in calls:
            lines.append(f'<invoke name="{call["name"]}">')
            for key, value in call["arguments"].items():
                lines.append(f'<parameter name="{key}">{render_value(value)}</parameter>')
            lines.append("</invoke>")
        lines.append("</minimax:tool_call>")
        return self.only_if_read_again("\n".join(lines), calls)
