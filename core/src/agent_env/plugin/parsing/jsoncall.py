"""A call whose name stands before its arguments in JSON, up to a closing tag."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_env.plugin.parser import CallStatus
from agent_env.plugin.parsing.calls import as_arguments, read_arguments_text, read_cut
from agent_env.plugin.parsing.cursor import Tags
from agent_env.plugin.parsing.jsonscan import find_outside_strings
from agent_env.plugin.parsing.jsonvalue import NotJson

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_env.plugin.parsing.cursor import Cursor, Scan
    from agent_env.plugin.parsing.reply import Reply

_THINK_END = "</think>"


class JsonCallTags:
    """The tags around arguments in JSON.

    Attributes:
        end: tags that close the call.
        others: tags before which a call that was not closed ends.
    """

    def __init__(self, end: tuple[str, ...], others: tuple[str, ...]) -> None:
        self.end = end
        self.stops = Tags(*end, *others)
        self.stops_or_think_end = Tags(*end, *others, _THINK_END)
        self.follows = Tags(*others)


def scan_json_call(
    cursor: Cursor,
    reply: Reply,
    tags: JsonCallTags,
    start: int,
    body: int,
    name: str | None,
    *,
    malformed: bool = False,
    strip: Callable[[str], str] = str.strip,
    after: str = "",
) -> Scan[None]:
    """Read the arguments and the end of a call, report it, and leave the cursor behind it.

    Args:
        cursor: the text.
        reply: where the call is reported.
        tags: the tags around the arguments.
        start: where the call starts.
        body: where its arguments start.
        name: its name.
        malformed: its form is not that of the format.
        strip: takes what is no JSON off both sides of the arguments.
        after: what may stand behind the arguments, before the closing tag.
    """
    stops = tags.stops if reply.thought else tags.stops_or_think_end
    token = yield from find_outside_strings(cursor, body, stops, tags.follows)
    if token is not None and token.tag == _THINK_END:
        cursor.pos = token.start
        return
    end = len(cursor.text) if token is None else token.start
    text = cursor.text[body:end]
    if token is None or token.tag not in tags.end:
        whole = read_cut(strip(text), after + tags.end[0])
        arguments = whole[0] if whole is not None and whole[1] and not malformed else None
        reply.unclosed(start, end, name, as_arguments(arguments)[0] if arguments is not None else None)
        return
    cursor.pos = token.end
    try:
        arguments, decoded = read_arguments_text(strip(text))
    except NotJson:
        reply.call(CallStatus.INVALID_JSON, start, token.end, name or None)
        return
    reply.well_formed(start, token.end, name, arguments, decoded=decoded, malformed=malformed)
