"""Harmony: messages with a channel and perhaps a recipient, between special tokens.

``<|channel|>commentary to=functions.NAME <|constrain|>json<|message|>{...}<|call|>``
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from agent_env.plugin.parsing import JsonCallTags, ScanningParser, Tags, scan_json_call

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agent_env.plugin.parsing import Cursor, Reply, Scan, Token

_START = "<|start|>"
_CHANNEL = "<|channel|>"
_MESSAGE = "<|message|>"
_CALL = "<|call|>"
_END = "<|end|>"
_RETURN = "<|return|>"
_ENDS = (_END, _RETURN, _CALL)
_OPENS = Tags(_START, _CHANNEL, _MESSAGE, *_ENDS)
_HEADER = Tags(_MESSAGE, _START, *_ENDS)
_BODY_END = Tags(*_ENDS, _START)
_ASSISTANT = Tags("<|start|>assistant")
_AFTER_ANALYSIS = Tags(_START, _CHANNEL)
_TAGS = JsonCallTags((_CALL, _END, _RETURN), (_START, _CHANNEL))
_RECIPIENT = re.compile(r"(?:^|\s|>)to=([^\s<]*)")
_CHANNEL_NAME = re.compile(r"<\|channel\|>\s*(\w+)")
_ROLE = re.compile(r"\s*(?:assistant)?\s*(?:to=[^\s<]*)?\s*\Z")
_NO_TOOL = frozenset({"", "user", "assistant", "all"})


class GptOssParser(ScanningParser):
    """The format of gpt-oss."""

    name = "gpt_oss"

    def scan(self, cursor: Cursor, reply: Reply) -> Scan[None]:
        """Messages, and text that stands in none."""
        while True:
            token = yield from cursor.find(_OPENS)
            end = len(cursor.text) if token is None else token.start
            before = cursor.text[cursor.pos : end]
            start = end
            if token is not None and token.tag in {_CHANNEL, _MESSAGE} and _ROLE.match(before):
                start = cursor.pos  # the role part, after the prompt's own <|start|>assistant
            reply.text(cursor.pos, start)
            if token is None:
                cursor.pos = len(cursor.text)
                return
            if token.tag in _ENDS:
                cursor.pos = token.end
                continue
            cursor.pos = token.end
            header = yield from self._header(cursor, reply, start, token)
            if header is not None:
                yield from self._message(cursor, reply, start, header)

    def _header(self, cursor: Cursor, reply: Reply, start: int, token: Token) -> Scan[str | None]:
        """The header up to its message token, behind which the cursor then stands; `None` when it has none."""
        end = token if token.tag == _MESSAGE else (yield from cursor.find(_HEADER))
        if end is not None and end.tag == _MESSAGE:
            cursor.pos = end.end
            return cursor.text[start : end.start]
        stop = len(cursor.text) if end is None else end.start
        cursor.pos = stop
        header = cursor.text[start:stop]
        if _recipient(header) is not None or header.rstrip().endswith("to="):
            reply.unclosed(start, stop)
        elif end is not None and token.tag == _START and _CHANNEL not in header:
            reply.text(token.end, stop)  # a token that begins no message
        return None

    def _message(self, cursor: Cursor, reply: Reply, start: int, header: str) -> Scan[None]:
        recipient = _recipient(header)
        if recipient is not None:
            name = recipient.removeprefix("functions.")
            thought, reply.thought = reply.thought, True  # a think tag means nothing here
            yield from scan_json_call(cursor, reply, _TAGS, start, cursor.pos, name)
            reply.thought = thought
            return
        channel = _CHANNEL_NAME.search(header)
        begin = cursor.pos
        if channel is not None and channel[1] == "analysis":
            end, cursor.pos = yield from self._analysis_end(cursor)
            reply.reason(begin, end)
            return
        token = yield from cursor.find(_BODY_END)
        end = len(cursor.text) if token is None else token.start
        reply.text(begin, end)
        cursor.pos = end if token is None or token.tag == _START else token.end

    def _analysis_end(self, cursor: Cursor) -> Scan[tuple[int, int]]:
        """Where the reasoning ends and where the text goes on. A token that is only mentioned ends nothing."""
        at = cursor.pos
        while True:
            token = yield from cursor.find(_BODY_END, at)
            if token is None:
                return len(cursor.text), len(cursor.text)
            if token.tag == _END:
                return token.start, token.end
            if token.tag == _START:
                if (yield from cursor.tag_at(_ASSISTANT, token.start)) is not None:
                    return token.start, token.start
            elif (yield from cursor.after_space(_AFTER_ANALYSIS, token.end)) is not None or (
                yield from cursor.only_space_after(token.end)
            ):
                return token.start, token.end
            at = token.end

    def render(self, calls: Sequence[Mapping[str, Any]]) -> str | None:
        """A message a call, the first without its beginning, which the prompt holds."""
        return f"{_START}assistant".join(
            f"{_CHANNEL}commentary to=functions.{call['name']} <|constrain|>json{_MESSAGE}"
            f"{json.dumps(call['arguments'], ensure_ascii=False)}{_CALL}"
            for call in calls
        )


def _recipient(header: str) -> str | None:
    match = _RECIPIENT.search(header)
    return match[1] if match is not None and match[1] not in _NO_TOOL else None
