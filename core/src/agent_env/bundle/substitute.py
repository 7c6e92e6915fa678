"""Placeholders of a task: ``<key>`` in string leaves, filled from a line of the seed file.

A leaf that is exactly ``<key>`` takes the value with its type; inside a longer string ``<key>`` takes the value's text.
Filling happens once: a value that looks like a placeholder stays as it is. Other text in angle brackets is text.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

SEED: Final = "seed"
"""The placeholder that reset's ``seed`` fills."""


def text_of(value: object) -> str:
    """The text of a value inside a longer string: a string as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def placeholder_pattern(keys: Iterable[str]) -> re.Pattern[str]:
    """The pattern of the placeholders of these keys, and of ``<seed>``."""
    names = sorted({*keys, SEED}, key=lambda key: (-len(key), key))
    return re.compile("<(" + "|".join(re.escape(name) for name in names) + ")>")


_WORD: Final = re.compile(r"<([^<>\n]+)>")


def words_in(value: object) -> Iterator[str]:
    """Everything in angle brackets in the string leaves of a value; each may be a placeholder."""
    if isinstance(value, str):
        yield from _WORD.findall(value)
    elif isinstance(value, dict):
        for item in cast("dict[str, object]", value).values():
            yield from words_in(item)
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            yield from words_in(item)


class Leaf:
    """A string with placeholders."""

    __slots__ = ("_parts", "_whole", "keys")

    def __init__(self, parts: list[str]) -> None:
        """``parts``: text and keys in turn, as `re.Pattern.split` gives them."""
        self._parts = tuple(parts)
        self.keys = frozenset(parts[1::2])
        self._whole = parts[1] if len(parts) == 3 and not parts[0] and not parts[2] else None

    def fill(self, values: Mapping[str, Any]) -> Any:
        """The string, or the value itself when the leaf is nothing but a placeholder."""
        if self._whole is not None:
            return values[self._whole]
        return "".join([text_of(values[part]) if position % 2 else part for position, part in enumerate(self._parts)])


class _Node:
    """An object or list that holds leaves somewhere."""

    __slots__ = ("_items", "_keys", "keys")

    def __init__(self, keys: tuple[str, ...] | None, items: tuple[Any, ...]) -> None:
        self._keys = keys
        self._items = items
        self.keys: frozenset[str] = frozenset().union(*(keys_of(item) for item in items))

    def fill(self, values: Mapping[str, Any]) -> Any:
        filled = [item.fill(values) if isinstance(item, (Leaf, _Node)) else item for item in self._items]
        return filled if self._keys is None else dict(zip(self._keys, filled, strict=True))

    def member(self, name: str) -> Any:
        """The compiled member of an object, or `None`."""
        return dict(zip(self._keys or (), self._items, strict=True)).get(name)


def compiled(value: Any, pattern: re.Pattern[str]) -> Any:
    """``value`` itself when it holds no placeholder, else an object with ``keys`` and ``fill(values)``."""
    if isinstance(value, str):
        parts = pattern.split(value)
        return value if len(parts) == 1 else Leaf(parts)
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        node = _Node(tuple(table), tuple(compiled(item, pattern) for item in table.values()))
        return node if node.keys else table
    if isinstance(value, list):
        items = cast("list[object]", value)
        node = _Node(None, tuple(compiled(item, pattern) for item in items))
        return node if node.keys else items
    return value


def keys_of(node: Any) -> frozenset[str]:
    """The placeholders that a compiled value holds."""
    return node.keys if isinstance(node, (Leaf, _Node)) else frozenset()


def fill(node: Any, values: Mapping[str, Any]) -> Any:
    """A compiled value with its placeholders filled; ``values`` has all of `keys_of`."""
    return node.fill(values) if isinstance(node, (Leaf, _Node)) else node
