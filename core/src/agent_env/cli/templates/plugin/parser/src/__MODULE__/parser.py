"""``<call>{"name": ..., "arguments": {...}}</call>``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from agent_env.plugin.parser import CallStatus
from agent_env.plugin.parsing import BlockParser, NotJson, Tags, decode_json, find_outside_strings, read_call_object

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agent_env.plugin.parsing import Cursor, Reply, Scan, Token

OPEN = "<call>"
CLOSE = "</call>"
STOPS = Tags(CLOSE, OPEN)
FOLLOWS = Tags(OPEN)


class __CLASS__(BlockParser):
    """`BlockParser` finds text, think blocks and the opening tags; `block` reads what an opening tag begins."""

    name = "__NAME__"
    openers = (OPEN,)

    def block(self, cursor: Cursor, reply: Reply, opener: Token) -> Scan[None]:
        """One call. ``yield from`` is where it waits for more text; `reply` takes what was found."""
        token = yield from find_outside_strings(cursor, opener.end, STOPS, FOLLOWS)
        if token is None or token.tag == OPEN:
            reply.unclosed(opener.start, len(cursor.text) if token is None else token.start)
            return
        cursor.pos = token.end
        try:
            value, decoded = decode_json(cursor.text[opener.end : token.start])
        except NotJson:
            reply.call(CallStatus.INVALID_JSON, opener.start, token.end)
            return
        call = read_call_object(value, decoded=decoded)
        arguments = call.arguments if call.is_object else None
        reply.well_formed(opener.start, token.end, call.name, arguments, decoded=call.decoded)

    def render(self, calls: Sequence[Mapping[str, Any]]) -> str:
        """The text of these calls; parsing it gives them back."""
        objects = ({"name": call["name"], "arguments": call["arguments"]} for call in calls)
        return "\n".join(f"{OPEN}{json.dumps(one, ensure_ascii=False)}{CLOSE}" for one in objects)
