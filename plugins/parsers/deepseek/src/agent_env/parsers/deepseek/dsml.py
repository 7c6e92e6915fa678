"""DSML, the format of V3.2: invoke and parameter tags; the attribute ``string`` says which values are text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from agent_env.plugin.parsing import TagParser

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_D = "\uff5cDSML\uff5c"


class DeepSeekV32Parser(TagParser):
    """The format of DeepSeek V3.2."""

    name = "deepseek_v32"
    wrappers = (f"<{_D}function_calls>", f"<{_D}tool_calls>")
    wrapper_ends = (f"</{_D}function_calls>", f"</{_D}tool_calls>")
    call_open = f"<{_D}invoke name="
    call_rest = r"""["']?([^"'<>\n]*)["']?[ \t]*>"""
    call_close = f"</{_D}invoke>"
    parameter_open = f"<{_D}parameter name="
    parameter_rest = r"""["']?([^"'<>\n]*)["']?(?:[ \t]+string[ \t]*=[ \t]*["']?(true|false)["']?)?[ \t]*>"""
    parameter_close = f"</{_D}parameter"

    def render(self, calls: Sequence[Mapping[str, Any]]) -> str | None:
        """One section; `None` when a name or value cannot be written so that it is read again."""
        lines = [f"<{_D}function_calls>"]
        for call in calls:
            lines.append(f'<{_D}invoke name="{call["name"]}">')
            for key, value in call["arguments"].items():
                is_text = isinstance(value, str)
                text = value if is_text else json.dumps(value, ensure_ascii=False)
                mark = "true" if is_text else "false"
                lines.append(f'<{_D}parameter name="{key}" string="{mark}">{text}</{_D}parameter>')
            lines.append(f"</{_D}invoke>")
        lines.append(f"</{_D}function_calls>")
        return self.only_if_read_again("\n".join(lines), calls)
