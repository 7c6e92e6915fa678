"""Typed fields of a trainer's row: whatever is missing or of another type is refused by its name."""

from __future__ import annotations

import json
import math
import os
from typing import TYPE_CHECKING, Any, cast

from agent_env.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping


class Fields:
    """Reads fields; every method raises `UsageError` with the field's name when it is not as the method says.

    Args:
        values: the fields.
        owner: what has them, as messages call it.
        mend: how to get fields that are right.
    """

    def __init__(self, values: Mapping[str, Any], *, owner: str = "the row", mend: str = "") -> None:
        self.values = values
        self.owner = owner
        self.mend = mend

    def inner(self, key: str, value: object, *, form: str = "an object", owner: str | None = None) -> Fields:
        """The fields of ``value``, which stands under ``key``; ``form`` says how it should."""
        if not isinstance(value, dict):
            raise self.wrong(key, form, value)
        return Fields(cast("dict[str, Any]", value), owner=owner or self.owner, mend=self.mend)

    def text(self, key: str) -> str:
        """A text that is not empty."""
        value = self.values.get(key)
        if not isinstance(value, str) or not value:
            raise self.wrong(key, "a text", value)
        return value

    def optional_text(self, key: str) -> str | None:
        """As `text`, or nothing."""
        return None if self.values.get(key) is None else self.text(key)

    def count(self, key: str, *, least: int = 0, default: int | None = None) -> int:
        """A whole number. Data loaders turn integers into floats in columns that have gaps: such a float is one too."""
        value: object = self.values.get(key, default)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise self.wrong(key, f"a whole number from {least} on", value)
        return value

    def optional_count(self, key: str, *, least: int = 0) -> int | None:
        """As `count`, or nothing."""
        return None if self.values.get(key) is None else self.count(key, least=least)

    def seconds(self, key: str, default: float) -> float:
        """A finite time above 0, in seconds."""
        value: object = self.values.get(key, default)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            try:
                seconds = float(value)
            except OverflowError:
                seconds = math.inf
            if 0 < seconds < math.inf:
                return seconds
        raise self.wrong(key, "seconds above 0", value)

    def json(self, key: str) -> object:
        """What a text of JSON says."""
        value = self.values.get(key)
        if not isinstance(value, str):
            raise self.wrong(key, "JSON text", value)
        try:
            return json.loads(value)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{self.owner} has a {key!r} that is not valid JSON: {error}{self._mend()}") from error

    def schemas(
        self, key: str, value: object, *, form: str = "a list of function schemas"
    ) -> tuple[dict[str, Any], ...]:
        """Function schemas: ``value``, which stands under ``key``."""
        if not isinstance(value, list):
            raise self.wrong(key, form, value)
        items = cast("list[object]", value)
        if not all(isinstance(item, dict) for item in items):
            raise self.wrong(key, form, items)
        return tuple(cast("list[dict[str, Any]]", items))

    def token(self, where: str, workers: str, key: str = "token_var") -> str | None:
        """The value of the environment variable that the field names, `None` when it names none.

        Args:
            where: what reads it, such as ``the rollout runs``.
            workers: whose environment it has to be set in too, and how.
            key: the field.
        """
        name = self.values.get(key)
        if name is None:
            return None
        if not isinstance(name, str) or not name:
            raise self.wrong(key, "the name of an environment variable", name)
        token = os.environ.get(name)
        if not token:
            raise UsageError(
                f"{self.owner} asks for the server's token in the environment variable {name}, which is not set where "
                f"{where}: set it for {workers}"
            )
        return token

    def wrong(self, key: str, form: str, value: object) -> UsageError:
        """The error of a field that is not ``form``."""
        words = repr(value)
        got = f"{words[:100]}…" if len(words) > 100 else words
        return UsageError(f"{self.owner} needs {key!r} as {form}, got {got}{self._mend()}")

    def _mend(self) -> str:
        return f": {self.mend}" if self.mend else ""
