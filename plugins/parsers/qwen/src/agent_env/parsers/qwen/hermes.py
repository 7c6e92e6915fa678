"""``<tool_call>{"name": ..., "arguments": {...}}</tool_call>``; line breaks inside the tags are optional."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from agent_env.plugin.parser import CallStatus
from agent_env.plugin.parsing import (
    BlockParser,
    NotJson,
    Tags,
    Token,
    decode_json,
    find_outside_strings,
    read_call_object,
    read_cut,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agent_env.plugin.parsing import Cursor, Reply, Scan

_OPEN = "<tool_call>"
_CLOSE = "</tool_call>"
_THINK_END = "</think>"
_STOPS = Tags(_CLOSE, _OPEN)
_STOPS_OR_THINK_END = Tags(_CLOSE, _OPEN, _THINK_END)
_FOLLOWS = Tags(_OPEN)


class HermesParser(BlockParser):
    """The format of Hermes."""

    name = "hermes"
    openers = (_OPEN,)

    def block(self, cursor: Cursor, reply: Reply, opener: Token) -> Scan[None]:
        """One call."""
        stops = _STOPS if reply.thought else _STOPS_OR_THINK_END
        token = yield from find_outside_strings(cursor, opener.end, stops, _FOLLOWS)
        if token is not None and token.tag == _THINK_END:
            cursor.pos = token.start
            return
        end = len(cursor.text) if token is None else token.start
        body = cursor.text[opener.end : end]
        if token is None or token.tag == _OPEN:
            whole = read_cut(body, _CLOSE)
            call = read_call_object(whole[0]) if whole is not None else None
            arguments = call.arguments if call is not None and call.decoded else None
            reply.unclosed(opener.start, end, call.name if call is not None else None, arguments)
            return
        cursor.pos = token.end
        try:
            value, decoded = decode_json(body)
        except NotJson:
            reply.call(CallStatus.INVALID_JSON, opener.start, token.end)
            return
        call = read_call_object(value, decoded=decoded)
        reply.well_formed(
            opener.start,
            token.end,
            call.name,
            call.arguments,
            decoded=call.decoded,
            malformed=not call.is_object,
        )

    def render(self, calls: Sequence[Mapping[str, Any]]) -> str | None:
        """One block a call, in lines of their own."""
        return "\n".join(
            f"{_OPEN}\n"
            + json.dumps({"name": call["name"], "arguments": call["arguments"]}, ensure_ascii=False)
            + f"\n{_CLOSE}"
            for call in calls
        )


class Qwen25Parser(HermesParser):
    """The same format, as Qwen 2.5 and Qwen 3 write it."""

    name = "qwen25"
