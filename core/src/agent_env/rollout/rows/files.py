"""Files that appear together, when all of them are complete."""

from __future__ import annotations

import contextlib
import os
import secrets
from typing import IO, TYPE_CHECKING, Self

from agent_env.errors import AgentEnvError

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType


class RowFiles:
    """Writes ``<name><suffix>`` files into ``folder`` under passing names and renames them on a clean exit.

    Raises:
        AgentEnvError: the folder cannot be made, or the disk is full; nothing is left behind then.
    """

    def __init__(self, folder: Path, *, suffix: str = ".jsonl") -> None:
        self._folder = folder
        self._suffix = suffix
        self._passing: dict[str, Path] = {}
        self._file: IO[bytes] | None = None
        self._made: list[Path] = []

    def __enter__(self) -> Self:
        missing: list[Path] = []
        path = self._folder.absolute()
        while not path.exists():
            missing.append(path)
            path = path.parent
        try:
            for folder in reversed(missing):
                folder.mkdir(exist_ok=True)
                self._made.append(folder)
        except OSError as error:
            self._remove()
            raise self._words(error) from error
        if not self._folder.is_dir():
            raise AgentEnvError(f"{self._folder} is not a folder")
        return self

    def start(self, name: str) -> None:
        """Begin the next file."""
        self._finish()
        path = self._folder / f".{name}{self._suffix}.{secrets.token_hex(4)}.part"
        try:
            self._file = path.open("xb")
        except OSError as error:
            raise self._words(error) from error
        self._passing[name] = path

    def write(self, data: bytes) -> None:
        """Append to the file that was begun last."""
        assert self._file is not None
        try:
            self._file.write(data)
        except OSError as error:
            raise self._words(error) from error

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        if exc_type is None:
            try:
                self._finish()
                for name, path in self._passing.items():
                    path.replace(self._folder / f"{name}{self._suffix}")
            except AgentEnvError:
                self._remove()
                raise
            except OSError as error:
                self._remove()
                raise self._words(error) from error
        else:
            self._remove()

    def _finish(self) -> None:
        file, self._file = self._file, None
        if file is None:
            return
        try:
            file.flush()
            os.fsync(file.fileno())
        except OSError as error:
            raise self._words(error) from error
        finally:
            with contextlib.suppress(OSError):
                file.close()

    def _remove(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):
                file.close()
        for path in self._passing.values():
            with contextlib.suppress(OSError):
                path.unlink()
        for folder in reversed(self._made):
            with contextlib.suppress(OSError):
                folder.rmdir()

    def _words(self, error: OSError) -> AgentEnvError:
        return AgentEnvError(f"cannot write rows to {self._folder}: {error.strerror or error}; nothing was written")
