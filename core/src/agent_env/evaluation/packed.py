"""Transcripts inside a page: packed, because they are most of it, and unpacked by the browser when they are read."""

from __future__ import annotations

import base64
import gzip
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    Key = tuple[str, int]

CHUNK = 256 * 1024
"""Characters of JSON that are packed together: alike conversations share what they have in common."""


def pack(conversations: Iterable[tuple[Key, Any]]) -> tuple[list[str], dict[Key, tuple[int, int]]]:
    """Pack conversations one after another, however many there are.

    Returns:
        Chunks, each the base64 of a gzipped JSON list of conversations, and for each key the number of its chunk and
        its place therein; an empty conversation has none.
    """
    chunks: list[str] = []
    places: dict[Key, tuple[int, int]] = {}
    waiting: list[str] = []
    size = 0

    def close() -> None:
        nonlocal size
        if waiting:
            content = f"[{','.join(waiting)}]".encode("utf-8", "replace")  # half surrogates are no text
            chunks.append(base64.b64encode(gzip.compress(content, 6, mtime=0)).decode())
            waiting.clear()
            size = 0

    for key, messages in conversations:
        if not messages:
            continue
        text = json.dumps(messages, ensure_ascii=False, separators=(",", ":"))
        places[key] = len(chunks), len(waiting)
        waiting.append(text)
        size += len(text)
        if size >= CHUNK:
            close()
    close()
    return chunks, places


def unpack(chunk: str) -> list[Any]:
    """What a chunk holds."""
    done: list[Any] = json.loads(gzip.decompress(base64.b64decode(chunk)))
    return done
