"""A run on disk: ``run.json`` says what was asked for, ``episodes.jsonl`` holds every episode, appended as it ends."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, cast

from agent_env.errors import UsageError
from agent_env.evaluation.record import EpisodeRecord
from agent_env.evaluation.settings import EvalSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import TracebackType

FORMAT = 1
RUN_FILE = "run.json"
EPISODES_FILE = "episodes.jsonl"


class RunStore:
    """A run that is being written; one process at a time. A line that a killed run left half written is dropped.

    Use it as ``with RunStore(folder, settings) as store:``. Its methods block for the disk.

    Args:
        folder: made when it is missing.
        settings: compared with those of a run that is there already.
        redact: applied to every line before it is written.

    Raises:
        UsageError: on entering: other settings, another process writes here, or a file that is no run.
    """

    def __init__(self, folder: Path, settings: EvalSettings, *, redact: Callable[[str], str] | None = None) -> None:
        self.folder = folder
        self.settings = settings
        self.records: dict[tuple[str, int], EpisodeRecord] = {}
        """By task and repeat; the last of each, transcripts left out."""
        self.wasted_tokens = 0
        """Spent on episodes that were replaced by a later one."""
        self._redact = redact or str
        self._file = -1

    def __enter__(self) -> Self:
        header = self.folder / RUN_FILE
        episodes = self.folder / EPISODES_FILE
        if header.exists():
            before = read_settings(self.folder)
            self.settings.check_resume(before, str(self.folder))
            self.settings = replace(self.settings, k=max(before.k, self.settings.k))
        elif episodes.exists():
            raise UsageError(f"{self.folder} has {EPISODES_FILE} but no {RUN_FILE}: give another --out")
        self.folder.mkdir(parents=True, exist_ok=True)
        self._file = os.open(episodes, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            self._lock()
            _drop_torn_line(self._file)
            write_whole(header, json.dumps({"format": FORMAT, "settings": self.settings.as_json()}, indent=2) + "\n")
            for record in read_episodes(self.folder, transcripts=False):
                self._keep(record)
        except BaseException:
            os.close(self._file)
            self._file = -1
            raise
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        os.close(self._file)
        self._file = -1

    def append(self, record: EpisodeRecord) -> None:
        """Write a line and wait until the disk has it; a line that cannot be written whole is taken back.

        Raises:
            OSError: the disk is full or broken.
        """
        line = (self._redact(json.dumps(record.as_json(), ensure_ascii=False, allow_nan=False)) + "\n").encode()
        before = os.fstat(self._file).st_size
        try:
            left = memoryview(line)
            while left:
                left = left[os.write(self._file, left) :]
            os.fsync(self._file)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, before)
            raise
        self._keep(record)

    def _keep(self, record: EpisodeRecord) -> None:
        old = self.records.pop(record.key, None)
        if old is not None:
            self.wasted_tokens += old.spent
        self.records[record.key] = without_transcript(record)

    def _lock(self) -> None:
        import fcntl

        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(f"{self.folder}: another evaluation is writing there; wait for it or give --out") from None


def without_transcript(record: EpisodeRecord) -> EpisodeRecord:
    """The record without its messages, which are most of its size."""
    return replace(record, messages=())


def read_settings(folder: Path) -> EvalSettings:
    """The settings of a run.

    Raises:
        UsageError: the folder holds none that this version can read.
    """
    path = folder / RUN_FILE
    try:
        header: object = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{folder} holds no run of `agentenv eval`: there is no {RUN_FILE}") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not JSON: {error}") from error
    fields = cast("dict[str, Any]", header) if isinstance(header, dict) else {}
    if fields.get("format") != FORMAT:
        raise UsageError(f"{path}: its format is {fields.get('format')!r}, this version reads {FORMAT}")
    settings = fields.get("settings")
    return EvalSettings.from_json(cast("dict[str, Any]", settings) if isinstance(settings, dict) else {})


def read_episodes(folder: Path, *, transcripts: bool = True) -> Iterator[EpisodeRecord]:
    """The lines of a run, in the order in which they were written; a last line without its end is left out.

    Raises:
        UsageError: a line is no record; names it.
    """
    path = folder / EPISODES_FILE
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            try:
                record = EpisodeRecord.from_json(json.loads(line))
            except (ValueError, RecursionError, AttributeError) as error:
                raise UsageError(f"{path}:{number}: {error}") from error
            yield record if transcripts else without_transcript(record)


def read_run(folder: Path, *, transcripts: bool = False) -> tuple[EvalSettings, list[EpisodeRecord]]:
    """Settings and episodes of a run; of several records of one episode the last counts.

    Raises:
        UsageError: it is no run.
    """
    settings = read_settings(folder)
    records: dict[tuple[str, int], EpisodeRecord] = {}
    for record in read_episodes(folder, transcripts=transcripts):
        records[record.key] = record
    return settings, sorted(records.values(), key=lambda one: (one.index, one.task, one.repeat))


def write_whole(path: Path, text: str) -> None:
    """Write a file so that it is there whole or not at all."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _drop_torn_line(file: int) -> None:
    """Cut what follows the last line's end."""
    size = end = os.fstat(file).st_size
    while end:
        start = max(0, end - 65536)
        found = os.pread(file, end - start, start).rfind(b"\n")
        if found >= 0:
            end = start + found + 1
            break
        end = start
    if end != size:
        os.ftruncate(file, end)
