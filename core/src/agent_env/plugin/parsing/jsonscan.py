"""Where JSON text ends, found without decoding it: strings are skipped, whatever stands in them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from agent_env.plugin.parsing.cursor import Cursor, Scan, Tags, Token

_STRING = r'"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"'
_STRING_REST = re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_VALUE_RUN = re.compile(rf'[^"{{}}\[\]]*+(?:{_STRING}[^"{{}}\[\]]*+)*+', re.DOTALL)
_AFTER_STRING = ",:}]"
_WINDOW = 8192  # a search for the end of a string may be in vain: it looks no farther


class _Runs(NamedTuple):
    outside: re.Pattern[str]
    inside: re.Pattern[str]


_runs: dict[str, _Runs] = {}


def _runs_of(firsts: str) -> _Runs:
    """Text without one of ``firsts``: outside strings that end on their line and sit well in JSON, and inside one."""
    if firsts not in _runs:
        stop = re.escape(firsts)
        other = rf'[^"{stop}]*+'
        string = rf"{_STRING}(?=\s*+[{re.escape(_AFTER_STRING)}{stop}])"
        inside = rf'[^"\\{stop}]*+(?:\\.[^"\\{stop}]*+)*+'
        _runs[firsts] = _Runs(re.compile(rf"{other}(?:{string}{other})*+", re.DOTALL), re.compile(inside, re.DOTALL))
    return _runs[firsts]


def find_outside_strings(cursor: Cursor, start: int, stops: Tags, follows: Tags) -> Scan[Token | None]:
    """The first stop tag at or after ``start`` that stands in no string; `None` at the end of the text.

    A string that holds a line break, or behind which JSON cannot go on, is broken, perhaps because it lacks its
    closing quote. In such a string a stop tag counts when the text's end or one of ``follows`` comes next.
    """
    run = _runs_of(stops.firsts).outside
    at = start
    while True:
        cursor.steps += 1
        match = run.match(cursor.text, at, at + _WINDOW)
        found_end = match.end() if match is not None else at
        del match
        if found_end == at + _WINDOW:
            at = found_end
            continue
        at = found_end
        if at == len(cursor.text):
            if cursor.ended:
                return None
            yield
        elif cursor.text[at] == '"':
            found = yield from _leave_string(cursor, at, stops, follows)
            if not isinstance(found, int):
                return found
            at = found
        else:
            token = yield from cursor.tag_at(stops, at)
            if token is not None:
                return token
            at += 1


def _leave_string(cursor: Cursor, quote: int, stops: Tags, follows: Tags) -> Scan[int | Token | None]:
    """The place after the string that starts at ``quote``, or a stop tag in it that counts, or `None`: no end."""
    inside = _runs_of(stops.firsts).inside
    candidate: Token | None = None
    at = quote + 1
    while True:
        cursor.steps += 1
        if candidate is None:
            match = inside.match(cursor.text, at)
        else:
            match = _STRING_REST.match(cursor.text, at)
        at = match.end() if match is not None else at
        del match
        mark = cursor.text[at : at + 1]
        if mark == '"':
            following = yield from cursor.skip_space(at + 1)
            text = cursor.text
            sound = following == len(text) or text[following] in _AFTER_STRING or text[following] in stops.firsts
            return at + 1 if candidate is None or sound else _rescued(cursor, candidate)
        if mark == "\\" or not mark:
            if not cursor.ended:
                del mark
                yield
                continue
            return _rescued(cursor, candidate) if candidate is not None else None
        token = yield from cursor.tag_at(stops, at)
        if token is None:
            at += 1
            continue
        opens = (yield from cursor.after_space(follows, token.end)) is not None
        last = not opens and (yield from cursor.only_space_after(token.end))
        if opens or last:
            behind = yield from cursor.skip_space(token.end)
            if "\n" in cursor.text[quote:behind]:
                return token
        if opens and cursor.rescues > 0:
            candidate = token
        at = token.end


def _rescued(cursor: Cursor, token: Token) -> Token:
    """A tag that ends a broken string: the text behind it was read in vain, which may not happen too often."""
    cursor.rescues -= 1
    return token


def _string_end(cursor: Cursor, quote: int) -> Scan[int]:
    """The place after the closing quote; -1 when the text ends first."""
    at = quote + 1
    while True:
        cursor.steps += 1
        match = _STRING_REST.match(cursor.text, at)
        at = match.end() if match is not None else at
        del match
        if at < len(cursor.text) and cursor.text[at] == '"':
            return at + 1
        if cursor.ended:
            return -1
        yield


def find_value_end(cursor: Cursor, start: int, stops: Tags | None = None) -> Scan[int]:
    """The place after the object or array that starts at ``start``, by its brackets; -1 when the text ends first.

    Args:
        cursor: the text.
        start: place of the opening bracket.
        stops: tags before which a value ends that has not been closed; the place of the tag is returned as
            ``-2 - place``.
    """
    open_brackets: list[str] = []
    braces = 0
    at = start
    while True:
        cursor.steps += 1
        match = _VALUE_RUN.match(cursor.text, at)
        at = match.end() if match is not None else at
        del match
        if at == len(cursor.text):
            if cursor.ended:
                return -1
            yield
            continue
        mark = cursor.text[at]
        if mark == '"':
            at = yield from _string_end(cursor, at)
            if at < 0:
                return -1
            continue
        if stops is not None and mark in stops.firsts:
            token = yield from cursor.tag_at(stops, at)
            if token is not None:
                return -2 - at
        at += 1
        if mark in "{[":
            open_brackets.append(mark)
            braces += mark == "{"
        elif mark == "}" and braces:  # also closes brackets that were left open in it
            braces -= 1
            while open_brackets.pop() != "{":
                pass
        elif mark == "]" and open_brackets[-1] == "[":
            open_brackets.pop()
        if not open_brackets:
            return at


def scan_scalar(cursor: Cursor, start: int, ends: re.Pattern[str]) -> Scan[int]:
    """The place of the first of ``ends`` (a class of characters with the quote) outside strings; -1: the text's end."""
    at = start
    while True:
        cursor.steps += 1
        match = ends.search(cursor.text, at)
        at = match.start() if match is not None else len(cursor.text)
        del match
        if at < len(cursor.text):
            if cursor.text[at] != '"':
                return at
            at = yield from _string_end(cursor, at)
            if at < 0:
                return -1
        elif cursor.ended:
            return -1
        else:
            yield
