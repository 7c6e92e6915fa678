"""``[f(a=1, b="x"), g()]``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from agent_env.parsers.llama.literals import NotPython, read_calls
from agent_env.plugin.parser import CallStatus
from agent_env.plugin.parsing import BlockParser, Tags, Token, reads_again, take_wrapper

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agent_env.plugin.parsing import Cursor, Reply, Scan

_START = "<|python_start|>"
_END = Tags("<|python_end|>")
_LIST = Tags("[")
_NAME = re.compile(r"[^\W\d][\w.\-]*+\(")
_NOT_NAME = re.compile(r"[^\w.\-]")
_NAME_LIMIT = 300
_NO_MARK = r"[^\[\](){}\"']*+"
_PLAIN_STRING = r"(?:\"(?!\"\")[^\"\\]*+(?:\\.[^\"\\]*+)*+\"(?=[^\"])|'(?!'')[^'\\]*+(?:\\.[^'\\]*+)*+'(?=[^']))"
_OUTSIDE = re.compile(rf"{_NO_MARK}(?:{_PLAIN_STRING}{_NO_MARK})*+", re.DOTALL)
_QUOTES = {quote: re.compile(rf"[^{quote}\\]*+(?:\\.[^{quote}\\]*+)*+", re.DOTALL) for quote in ('"', "'")}
_PAIRS = {")": "(", "]": "[", "}": "{"}


class PythonicParser(BlockParser):
    """A list of Python calls."""

    name = "pythonic"
    openers = ("[", _START)

    def block(self, cursor: Cursor, reply: Reply, opener: Token) -> Scan[None]:
        """A list of calls, or a bracket that is text."""
        bracket = opener if opener.tag == "[" else (yield from cursor.after_space(_LIST, opener.end))
        if bracket is None or not (yield from self._begins_call(cursor, bracket.end)):
            reply.text(opener.start, opener.end)
            return
        closing = take_wrapper(reply)
        end = yield from _list_end(cursor, bracket.start)
        if end < 0:
            reply.unclosed(bracket.start, len(cursor.text))
            return
        cursor.pos = end
        closer = yield from cursor.after_space(Tags(closing) if closing is not None else _END, end)
        if closer is not None and (closing is not None or opener.tag == _START):
            cursor.pos = closer.end
        try:
            calls = read_calls(cursor.text[bracket.start : end])
        except NotPython:
            reply.call(CallStatus.MALFORMED_STRUCTURE, bracket.start, end)
            return
        for start, stop, name, arguments, decoded in calls:
            reply.well_formed(
                bracket.start + start,
                bracket.start + stop,
                name,
                arguments,
                decoded=decoded,
                malformed=closing is not None,
            )

    def _begins_call(self, cursor: Cursor, at: int) -> Scan[bool]:
        """Whether a name and an opening parenthesis stand behind the bracket."""
        at = yield from cursor.skip_space(at)
        yield from cursor.until(_NOT_NAME, at, _NAME_LIMIT)
        return _NAME.match(cursor.text, at, at + _NAME_LIMIT) is not None

    def render(self, calls: Sequence[Mapping[str, Any]]) -> str | None:
        """The list; `None` when a name cannot be written in it."""
        if not calls:
            return ""
        written = [
            f"{call['name']}({', '.join(f'{key}={_literal(value)}' for key, value in call['arguments'].items())})"
            for call in calls
        ]
        text = f"[{', '.join(written)}]"
        return text if reads_again(self, text, calls) else None


def _literal(value: Any) -> str:
    return repr(value)


def _list_end(cursor: Cursor, start: int) -> Scan[int]:
    """The place after the list that starts at ``start``; -1 when the text ends first."""
    open_brackets: list[str] = []
    at = start
    while True:
        cursor.steps += 1
        match = _OUTSIDE.match(cursor.text, at)
        at = match.end() if match is not None else at
        del match
        if at == len(cursor.text):
            if cursor.ended:
                return -1
            yield
            continue
        mark = cursor.text[at]
        if mark in _QUOTES:
            at = yield from _string_end(cursor, at, mark)
            if at < 0:
                return -1
            continue
        at += 1
        if mark not in _PAIRS:
            open_brackets.append(mark)
        elif open_brackets[-1] == _PAIRS[mark]:
            open_brackets.pop()
        elif mark == "]":  # the list ends although something in it was left open: it does not parse
            return at
        if not open_brackets:
            return at


def _string_end(cursor: Cursor, start: int, quote: str) -> Scan[int]:
    """The place after the string that starts at ``start``, which may have three quotes; -1 for none."""
    while len(cursor.text) < start + 3 and not cursor.ended:
        yield
    triple = cursor.text.startswith(quote * 3, start)
    at = start + (3 if triple else 1)
    while True:
        cursor.steps += 1
        match = _QUOTES[quote].match(cursor.text, at)
        at = match.end() if match is not None else at
        del match
        if cursor.text.startswith(quote, at):
            if not triple or cursor.text.startswith(quote * 3, at):
                return at + (3 if triple else 1)
            if len(cursor.text) >= at + 3 or cursor.ended:
                at += 1
                continue
        if cursor.ended:
            return -1
        yield
