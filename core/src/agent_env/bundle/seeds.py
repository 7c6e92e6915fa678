"""``tasks/<name>.seeds.jsonl``: one JSON object a line, each a task.

Only the offsets of the lines and their keys are held, in two arrays and one string of bytes; a line is parsed when
somebody asks for it. Lines of white space are skipped and count: a key that is a line number is that of the file.
"""

from __future__ import annotations

import itertools
import json
import os
import re
from array import array
from typing import TYPE_CHECKING, Any, Final, cast

from agent_env.bundle import jsontext
from agent_env.bundle.names import listing
from agent_env.errors import BundleError, Problem

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path
    from typing import BinaryIO

_FAST_ID: Final = re.compile(rb'[ \t]*\{[ \t]*"id"[ \t]*:[ \t]*(?:"([^"\\\x00-\x1f]*)"|(-?[0-9]{1,18}))[ \t]*[,}]')
_BLANK: Final = b" \t\r\n"


class SeedFile:
    """The lines of a seed file.

    Attributes:
        path: the file.

    Raises (all methods that read lines):
        BundleError: with file and line, when a line is not what it should be or the file changed since it was indexed.
    """

    def __init__(self, path: Path, *, shown: Path, task: str) -> None:
        """Index the file.

        Args:
            path: the file.
            shown: its path for messages.
            task: name of its task, for problems.
        """
        self.path = path
        self._shown = shown
        self._task = task
        self._offsets: array[int] = array("Q")
        self._key_ends: array[int] = array("Q")
        self._key_bytes = bytearray()
        self._lines: array[int] | None = None  # only when blank lines part row number and line number
        self._index()

    def __len__(self) -> int:
        return len(self._offsets)

    def problem(self, message: str, line: int | None = None) -> BundleError:
        """The error for a line, counted from 1."""
        problem = Problem(self._shown, message, line=line, task=self._task)
        return BundleError(f"task {self._task!r} has a wrong seed", [problem])

    def line(self, index: int) -> int:
        """The line of row ``index`` in the file, from 1."""
        return (index if self._lines is None else self._lines[index]) + 1

    def row(self, index: int) -> dict[str, Any]:
        """The fields of row ``index``."""
        with self._open() as file:
            file.seek(self._offsets[index])
            return self._parsed(file.readline(), index)

    def first_with(self, keys: Collection[str]) -> dict[str, Any]:
        """Of these keys those that any row has, with the value in the first row that has it.

        Only lines that hold such a key as JSON text are parsed, so a file without them is read as fast as it can be.
        """
        found: dict[str, Any] = {}
        wanted = {key: _as_key(key) for key in keys}
        if not wanted:
            return found
        with self._open() as file:
            for raw in file:
                near = [key for key, pattern in wanted.items() if pattern.search(raw) is not None]
                if not near:
                    continue
                try:
                    row: object = json.loads(raw)
                except (ValueError, RecursionError):
                    continue
                if isinstance(row, dict):
                    fields = cast("dict[str, Any]", row)
                    found.update({key: fields[key] for key in near if key in fields})
                    wanted = {key: pattern for key, pattern in wanted.items() if key not in found}
                    if not wanted:
                        break
        return found

    def rows(self, indexes: Collection[int]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Rows in this order; neighbours in the file are read on without a seek."""
        with self._open() as file:
            position = -1
            for index in indexes:
                offset = self._offsets[index]
                if offset != position:
                    file.seek(offset)
                raw = file.readline()
                position = offset + len(raw)
                yield index, self._parsed(raw, index)

    def key(self, index: int, row: dict[str, Any]) -> str:
        """The last part of the task's id: the row's ``id``, else its line number from 0."""
        if "id" not in row:
            return str(self.line(index) - 1)
        key = row["id"]
        if isinstance(key, bool) or not isinstance(key, (str, int)):
            raise self.problem(f"the field 'id' has to be a string or a whole number, not {key!r}", self.line(index))
        text = str(key)
        if not text or not text.isprintable() or text != text.strip() or any(mark in text for mark in "*?[]"):
            raise self.problem(
                f"the id {text!r} is empty, holds * ? [ ] or a control character, or begins or ends with a space",
                self.line(index),
            )
        return text

    def keys(self) -> Iterator[str]:
        """The key of every row, in order, as they were when the file was indexed.

        A line that is no JSON object has its line number here and is refused when it is asked for.
        """
        start = 0
        for end in self._key_ends:
            yield self._key_bytes[start:end].decode(errors="surrogatepass")
            start = end

    def repeated_key(self) -> tuple[str, int, int] | None:
        """A key that two rows have, with their lines; `None` when all differ. Holds 8 bytes a row meanwhile."""
        hashes = array("q", (hash(key) for key in self.keys()))
        ordered = array("q", sorted(hashes))
        twice = {left for left, right in itertools.pairwise(ordered) if left == right}
        if not twice:
            return None
        seen: dict[str, int] = {}
        for index, key in enumerate(self.keys()):
            if hash(key) in twice:
                if key in seen:
                    return key, self.line(seen[key]), self.line(index)
                seen[key] = index
        return None

    # -- reading ------------------------------------------------------------------------------------------------------

    def _index(self) -> None:
        numbers: array[int] = array("L")
        try:
            with self.path.open("rb") as file:
                position = 0
                for number, raw in enumerate(file):
                    if raw.strip(_BLANK):
                        self._offsets.append(position)
                        numbers.append(number)
                        self._key_bytes += _quick_key(raw, number).encode(errors="surrogatepass")
                        self._key_ends.append(len(self._key_bytes))
                    position += len(raw)
                self._stamp = _stamp(file)
        except OSError as error:
            raise self.problem(f"cannot be read: {error.strerror or error}") from None
        if not self._offsets:
            raise self.problem("is empty; each line is a JSON object that makes a task")
        if numbers[-1] != len(numbers) - 1:
            self._lines = numbers

    def _open(self) -> BinaryIO:
        try:
            file = self.path.open("rb")
        except OSError as error:
            raise self.problem(f"cannot be read: {error.strerror or error}") from None
        if _stamp(file) != self._stamp:
            file.close()
            raise self.problem("changed after the bundle was loaded; load the bundle again")
        return file

    def _parsed(self, raw: bytes, index: int) -> dict[str, Any]:
        try:
            row = jsontext.parse(raw)
        except jsontext.JsonProblem as error:
            raise self.problem(error.message, self.line(index)) from None
        if not isinstance(row, dict):
            raise self.problem("is not a JSON object", self.line(index))
        return cast("dict[str, Any]", row)

    def missing(self, keys: Collection[str], index: int, row: Mapping[str, Any]) -> BundleError | None:
        """The error when ``row`` lacks one of ``keys``."""
        lacking = sorted(key for key in keys if key not in row)
        if not lacking:
            return None
        return self.problem(f"lacks the field {listing(lacking)} that the task uses as a placeholder", self.line(index))


def _as_key(key: str) -> re.Pattern[bytes]:
    """Where a line may have this key: as it is or with escapes for what is not ASCII."""
    plain = re.escape(json.dumps(key, ensure_ascii=False).encode(errors="surrogatepass"))
    escaped = re.escape(json.dumps(key).encode())
    return re.compile(b"(?:" + plain + b"|" + escaped + rb")[ \t]*:")


def _stamp(file: BinaryIO) -> tuple[int, int]:
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns


def _quick_key(raw: bytes, number: int) -> str:
    """The key of a line; a line that begins with its id is not parsed."""
    found = _FAST_ID.match(raw)
    try:
        if found is not None:
            return found[1].decode() if found[1] is not None else str(int(found[2]))
        row: object = json.loads(raw)
    except (ValueError, RecursionError):
        return str(number)
    if not isinstance(row, dict):
        return str(number)
    return str(cast("dict[str, object]", row).get("id", number))
