"""JSON as the bundle format wants it: no duplicate keys, no NaN or infinity, valid Unicode; with lines for messages."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any, Final, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterator

Path = tuple[str | int, ...]


class JsonProblem(ValueError):
    """Text is not the JSON that was expected; ``line`` counts from 1 where it is known."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


def parse(raw: bytes) -> Any:
    """The JSON value of ``raw``.

    Raises:
        JsonProblem: with a message that needs no traceback.
    """
    if raw.startswith(b"\xef\xbb\xbf"):
        raise JsonProblem("begins with a byte order mark; save it as UTF-8 without one", 1)
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise JsonProblem("is not UTF-8 text", raw.count(b"\n", 0, error.start) + 1) from None
    try:
        value = _decoder.decode(text)
    except json.JSONDecodeError as error:
        raise JsonProblem(f"is not JSON: {error.msg} (column {error.colno})", error.lineno) from None
    except RecursionError:
        raise JsonProblem("is nested too deeply") from None
    except ValueError as error:
        message = str(error)
        raise JsonProblem(message if isinstance(error, JsonProblem) else f"is not JSON: {message}") from None
    if "\\u" in text:
        _refuse_surrogates(value)
    return value


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise JsonProblem(f"has the key {key!r} twice in one object")
            seen.add(key)
    return value


def _constant(name: str) -> NoReturn:
    raise JsonProblem(f"holds {name}, which is no JSON number")


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise JsonProblem(f"holds the number {text}, which is too large")
    return value


_decoder: Final = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_constant, parse_float=_float)


def _refuse_surrogates(value: object) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise JsonProblem("holds half of a surrogate pair (\\ud800 to \\udfff), which is no character") from None


# -- where things stand -----------------------------------------------------------------------------------------------

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s"{}\[\],:]+', re.DOTALL)


def lines(text: str) -> dict[Path, int]:
    """The line of every value of a JSON text by its path of keys and indexes; members stand at their key."""
    found: dict[Path, int] = {}
    tokens = _Tokens(text)
    token = next(tokens, None)
    if token is not None:
        _walk(tokens, token, (), found)
    return found


class _Tokens:
    def __init__(self, text: str) -> None:
        self._text = text
        self._matches: Iterator[re.Match[str]] = _TOKEN.finditer(text)
        self._line = 1
        self._offset = 0

    def __iter__(self) -> _Tokens:
        return self

    def __next__(self) -> tuple[str, int]:
        match = next(self._matches)
        self._line += self._text.count("\n", self._offset, match.start())
        self._offset = match.start()
        return match.group(), self._line


def _walk(tokens: _Tokens, token: tuple[str, int], path: Path, found: dict[Path, int]) -> None:
    """Record the value that begins with ``token``; the text has been parsed before, so it is well formed."""
    word, line = token
    found.setdefault(path, line)
    if word == "{":
        for key, key_line in tokens:
            if key in "},":
                if key == "}":
                    return
                continue
            name = json.loads(key)
            found[(*path, name)] = key_line
            next(tokens)  # the colon
            _walk(tokens, next(tokens), (*path, name), found)
    elif word == "[":
        index = 0
        for item in tokens:
            if item[0] == "]":
                return
            if item[0] == ",":
                continue
            _walk(tokens, item, (*path, index), found)
            index += 1
