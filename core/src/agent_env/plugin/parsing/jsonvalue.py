"""JSON as the standard has it: no NaN, no endless nesting, no number that turns into infinity unseen."""

from __future__ import annotations

import json
import math
import re
from typing import Any

MAX_DEPTH = 128
MAX_CHARS = 1 << 24
_MAX_DIGITS = 4000  # below the interpreter's own limit for turning digits into an integer
_DEPTH_MARKS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\]]', re.DOTALL)


class NotJson(ValueError):
    """The text is not JSON, or nests too deep."""


class _Unrepresentable(ValueError):
    """A number that Python cannot hold as a finite one."""


def decode_json(text: str) -> tuple[Any, bool]:
    """The value of a JSON text, and whether all of it could be decoded.

    A number that no finite float holds (``1e999``), or with thousands of digits, stays text: then the second is False.

    Raises:
        NotJson: the text is not JSON, or nests deeper than `MAX_DEPTH`, or is longer than `MAX_CHARS` characters.
    """
    if len(text) > MAX_CHARS or _too_deep(text):
        raise NotJson("too deep or too long")
    try:
        return _STRICT.decode(text), True
    except _Unrepresentable:
        return _decode(_LENIENT, text), False
    except (ValueError, RecursionError) as error:
        raise NotJson("not JSON") from error


def decode_prefix(text: str) -> tuple[Any, bool, int]:
    """Like `decode_json` for a value at the start of ``text``, with the place where it ends.

    Raises:
        NotJson: the text does not start with a JSON value.
    """
    if len(text) > MAX_CHARS or _too_deep(text):
        raise NotJson("too deep or too long")
    try:
        try:
            value, end = _STRICT.raw_decode(text)
            return value, True, end
        except _Unrepresentable:
            value, end = _LENIENT.raw_decode(text)
            return value, False, end
    except (ValueError, RecursionError) as error:
        raise NotJson("not JSON") from error


def _decode(decoder: json.JSONDecoder, text: str) -> Any:
    try:
        return decoder.decode(text)
    except (ValueError, RecursionError) as error:
        raise NotJson("not JSON") from error


def _too_deep(text: str) -> bool:
    if text.count("{") + text.count("[") <= MAX_DEPTH:
        return False
    depth = 0
    for match in _DEPTH_MARKS.finditer(text):
        mark = text[match.start()]
        if mark in "{[":
            depth += 1
            if depth > MAX_DEPTH:
                return True
        elif mark != '"':
            depth -= 1
    return False


def _float(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise _Unrepresentable(digits)
    return value


def _int(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise _Unrepresentable(digits)
    return int(digits)


def _float_or_text(digits: str) -> float | str:
    value = float(digits)
    return digits if math.isinf(value) else value


def _int_or_text(digits: str) -> int | str:
    return digits if len(digits) > _MAX_DIGITS else int(digits)


def _no_constant(name: str) -> Any:
    raise NotJson(name)


_STRICT = json.JSONDecoder(parse_float=_float, parse_int=_int, parse_constant=_no_constant)
_LENIENT = json.JSONDecoder(parse_float=_float_or_text, parse_int=_int_or_text, parse_constant=_no_constant)
