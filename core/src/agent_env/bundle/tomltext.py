"""TOML files of a bundle, with lines for messages."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any

from agent_env.bundle.names import did_you_mean, listing

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path


class TomlFile:
    """The table of a TOML file and where its keys stand.

    ``report(path, message, line=...)`` takes what is wrong; a file that cannot be read is an empty table.
    """

    def __init__(self, path: Path, report: Callable[..., None]) -> None:
        self.path = path
        self._report = report
        self._text = ""
        self.table: dict[str, Any] = {}
        self.readable = False
        if path.exists() and not path.is_file():
            report(path, "is no file")
            return
        try:
            self._text = path.read_bytes().decode()
            self.table = tomllib.loads(self._text)
            self.readable = True
        except UnicodeDecodeError:
            report(path, "is not UTF-8 text")
        except OSError as error:
            report(path, f"cannot be read: {error.strerror or error}")
        except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
            found = re.search(r"at line (\d+)", str(error))
            report(path, f"is not TOML: {error}", line=int(found[1]) if found else None)

    def line(self, key: str) -> int | None:
        """The first line that sets ``key`` or opens the table ``key``."""
        quoted = re.escape(key)
        found = re.search(rf"""(?m)^[ \t]*(?:\[[ \t]*)?["']?{quoted}["']?[ \t]*(?:=|\]|\.)""", self._text)
        return None if found is None else self._text.count("\n", 0, found.start()) + 1

    def problem(self, key: str, message: str) -> None:
        """Report something about ``key``."""
        self._report(self.path, message, line=self.line(key))

    def refuse_unknown(self, known: Collection[str]) -> None:
        """Report every key of the table that is not ``known``."""
        for key in self.table:
            if key not in known:
                hint = did_you_mean(key, known) or f"; known: {listing(sorted(known))}"
                self.problem(key, f"unknown key {key!r}{hint}")

    def text(self, key: str) -> str | None:
        """The non-empty string of ``key``; `None` when it is absent or, reported, something else."""
        value = self.table.get(key)
        if value is None:
            return None
        if not isinstance(value, str) or not value:
            self.problem(key, f"{key!r} has to be a string that is not empty, not {value!r}")
            return None
        return value
