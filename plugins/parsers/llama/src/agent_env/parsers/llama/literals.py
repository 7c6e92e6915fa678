"""Calls and values in Python's notation, read without running or compiling anything."""

from __future__ import annotations

import ast
import math
import re
from typing import Any

MAX_DEPTH = 64
_MAX_DIGITS = 4000
_MAX_EXPRESSION = 2000

_SPACE = re.compile(r"\s*+")
_NAME = re.compile(r"[^\W\d][\w.\-]*+")
_KEY = re.compile(r"([^\W\d]\w*+)\s*+=(?!=)")
_STRING = re.compile(
    r"([rR]?)(?:"
    r'"""((?:[^"\\]|\\.|"(?!""))*+)"""|'
    r"'''((?:[^'\\]|\\.|'(?!''))*+)'''|"
    r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"|'
    r"'([^'\\]*+(?:\\.[^'\\]*+)*+)')",
    re.DOTALL,
)
_INTEGER = re.compile(
    r"[+-]?(?:0[xX](?:_?[0-9a-fA-F])++|0[oO](?:_?[0-7])++|0[bB](?:_?[01])++|0(?:_?0)*+|[1-9](?:_?\d)*+)\Z"
)
_FLOAT = re.compile(
    r"[+-]?(?:(?:\d(?:_?\d)*+\.(?:\d(?:_?\d)*+)?|\.\d(?:_?\d)*+)(?:[eE][+-]?\d(?:_?\d)*+)?"
    r"|\d(?:_?\d)*+[eE][+-]?\d(?:_?\d)*+)\Z",
    re.ASCII,
)
_PLAIN_ARGUMENT = re.compile(
    r"""([^\W\d]\w*+)=(?:"([^"\\]*+)"|'([^'\\]*+)'|(-?[1-9]\d{0,15})|(True|False|None))\s*+(?:,\s*+|(?=\)))""", re.ASCII
)
_ATOM_END = re.compile(r"[,\])}:\s]")
_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(\r\n|.))", re.DOTALL)
_SIMPLE = {
    "n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "a": "\a",
    "\\": "\\", "'": "'", '"': '"', "\n": "", "\r\n": "",
}  # fmt: skip
_WORDS = {"True": True, "False": False, "None": None}
_SKIP_IN_VALUE = re.compile(r"[^\[\](){}\"',]*+")


class NotPython(ValueError):
    """The text does not parse."""


def read_calls(text: str) -> list[tuple[int, int, str, dict[str, Any] | None, bool]]:
    """The calls of a list such as ``[f(a=1), g()]``.

    Returns:
        for each call where it starts and ends, its name, its arguments (`None` when some have no name), and whether
        every value is a literal; what is none keeps its text.

    Raises:
        NotPython: the text is no list of calls.
    """
    calls: list[tuple[int, int, str, dict[str, Any] | None, bool]] = []
    at = _skip(text, 1)
    while text[at : at + 1] != "]":
        start = at
        match = _NAME.match(text, at)
        if match is None or text[match.end() : match.end() + 1] != "(":
            raise NotPython(text[at : at + 20])
        arguments, decoded, at = _read_arguments(text, match.end() + 1)
        calls.append((start, at, match.group(), arguments, decoded))
        at = _skip(text, at)
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)
        elif text[at : at + 1] != "]":
            raise NotPython(text[at : at + 20])
    return calls


def _read_arguments(text: str, at: int) -> tuple[dict[str, Any] | None, bool, int]:
    arguments: dict[str, Any] = {}
    named = True
    decoded = True
    value: Any
    at = _skip(text, at)
    while text[at : at + 1] != ")":
        plain = _PLAIN_ARGUMENT.match(text, at)
        if plain is not None:  # a short cut that changes no result
            key, double, single, digits, word = plain.groups()
            if word is not None:
                arguments[key] = _WORDS[word]
            elif digits is not None:
                arguments[key] = int(digits)
            else:
                arguments[key] = double if double is not None else single
            at = plain.end()
            continue
        match = _KEY.match(text, at)
        if match is not None:
            at = _skip(text, match.end())
            value, end = _plain_value(text, at)
            if end >= 0:
                arguments[match.group(1)] = value
                at = end
                if text[at] == ",":
                    at = _skip(text, at + 1)
                continue
        end = value_end(text, at)
        raw = text[at:end].rstrip()
        if not raw or raw.startswith("*") or (match is None and arguments):
            raise NotPython(text[at : at + 20])
        try:
            value = read_literal(raw)
        except NotPython:
            _check_expression(raw)
            value = raw
            decoded = False
        if match is None:
            named = False
        else:
            arguments[match.group(1)] = value
        at = end
        if text[at] == ",":
            at = _skip(text, at + 1)
    return (arguments if named else None), decoded, at + 1


def _plain_value(text: str, at: int) -> tuple[Any, int]:
    """A literal that a comma or parenthesis follows, and the place of that; -1 when something else stands there."""
    try:
        value, end = _value(text, at, 0)
    except NotPython:
        return None, -1
    end = _skip(text, end)
    return (value, end) if text[end : end + 1] in {",", ")"} else (None, -1)


def _check_expression(text: str) -> None:
    """Refuse what is no expression of Python at all; nothing is run, and long text is not looked at."""
    if len(text) > _MAX_EXPRESSION:
        return
    try:
        ast.parse(_STRING.sub('""', text), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise NotPython(text[:20]) from None


def value_end(text: str, at: int) -> int:
    """The place of the comma or parenthesis behind a value."""
    depth = 0
    while True:
        match = _SKIP_IN_VALUE.match(text, at)
        at = match.end() if match is not None else at
        mark = text[at : at + 1]
        if not mark:
            raise NotPython("cut")
        if mark in "\"'":
            string = _STRING.match(text, at)
            if string is None:
                raise NotPython("a string does not end")
            at = string.end()
            continue
        if mark in "([{":
            depth += 1
        elif mark in ")]}":
            if depth == 0:
                if mark != ")":
                    raise NotPython("brackets do not match")
                return at
            depth -= 1
        elif depth == 0:
            return at
        at += 1


def read_literal(text: str) -> Any:
    """The value of a literal that JSON can hold.

    Raises:
        NotPython: it is none.
    """
    value, end = _value(text, _skip(text, 0), 0)
    if _skip(text, end) != len(text):
        raise NotPython(text[end : end + 20])
    return value


def _value(text: str, at: int, depth: int) -> tuple[Any, int]:
    if depth > MAX_DEPTH:
        raise NotPython("too deep")
    mark = text[at : at + 1]
    if mark == "{":
        return _dict(text, at + 1, depth + 1)
    if mark and mark in "[(":
        return _list(text, at + 1, depth + 1, "]" if mark == "[" else ")")
    string = _STRING.match(text, at)
    if string is not None:
        return _strings(text, string)
    match = _ATOM_END.search(text, at)
    end = match.start() if match is not None else len(text)
    return _atom(text[at:end]), end


def _strings(text: str, string: re.Match[str]) -> tuple[str, int]:
    """One string, or several that stand behind each other."""
    parts: list[str] = []
    end = string.end()
    found: re.Match[str] | None = string
    while found is not None:
        body = next(group for group in found.groups()[1:] if group is not None)
        parts.append(body if found[1] or "\\" not in body else _ESCAPE.sub(_unescape, body))
        end = found.end()
        found = _STRING.match(text, _skip(text, end))
    return "".join(parts), end


def _unescape(match: re.Match[str]) -> str:
    octal, short, middle, long, other = match.groups()
    if other is not None:
        return _SIMPLE.get(other, match.group())
    code = int(octal, 8) if octal is not None else int(short or middle or long, 16)
    return chr(code) if code <= 0x10FFFF else match.group()


def _atom(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if len(text) <= _MAX_DIGITS:
        if _INTEGER.match(text):
            return int(text, 0)
        if _FLOAT.match(text):
            try:
                value = float(text)
            except ValueError:
                raise NotPython(text) from None
            if math.isfinite(value):
                return value
    raise NotPython(text[:20])


def _list(text: str, at: int, depth: int, closing: str) -> tuple[Any, int]:
    items: list[Any] = []
    comma = False
    at = _skip(text, at)
    while text[at : at + 1] != closing:
        value, at = _value(text, at, depth)
        items.append(value)
        at = _skip(text, at)
        comma = text[at : at + 1] == ","
        if comma:
            at = _skip(text, at + 1)
        elif text[at : at + 1] != closing:
            raise NotPython(text[at : at + 20])
    if closing == ")" and len(items) == 1 and not comma:
        return items[0], at + 1
    return items, at + 1


def _dict(text: str, at: int, depth: int) -> tuple[dict[str, Any], int]:
    fields: dict[str, Any] = {}
    at = _skip(text, at)
    while text[at : at + 1] != "}":
        key, at = _value(text, at, depth)
        at = _skip(text, at)
        if not isinstance(key, str) or text[at : at + 1] != ":":
            raise NotPython(text[at : at + 20])
        fields[key], at = _value(text, _skip(text, at + 1), depth)
        at = _skip(text, at)
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)
        elif text[at : at + 1] != "}":
            raise NotPython(text[at : at + 20])
    return fields, at + 1


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match is not None else at
