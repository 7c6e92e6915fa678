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
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
        redact: applied to every text before it is written.
        moved: continue a run whose endpoint had another address.
        digest_of_first: see `EvalSettings.continuing`.

    Raises:
        UsageError: on entering: other settings, another process writes here, or a file that is no run.
    """

    def __init__(
        self,
        folder: Path,
        settings: EvalSettings,
        *,
        redact: Callable[[str], str] | None = None,
        moved: bool = False,
        digest_of_first: Callable[[int], str] | None = None,
    ) -> None:
        self.folder = folder
        self.settings = settings
        self.records: dict[tuple[str, int], EpisodeRecord] = {}
        """By task and repeat; the last of each, transcripts left out."""
        self.wasted = {"prompt": 0, "completion": 0}
        """Tokens of episodes that were replaced by a later one."""
        self._redact = redact or str
        self._moved = moved
        self._digest_of_first = digest_of_first
        self._file = -1

    def __enter__(self) -> Self:
        header = self.folder / RUN_FILE
        episodes = self.folder / EPISODES_FILE
        if header.exists():
            self._continuing()  # before anything is made in a folder that may be somebody else's
        self.folder.mkdir(parents=True, exist_ok=True)
        self._file = os.open(episodes, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            self._lock()
            if header.exists():
                self.settings = self._continuing()
            elif os.fstat(self._file).st_size:
                raise UsageError(f"{self.folder} has {EPISODES_FILE} but no {RUN_FILE}: give another --out")
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
        fields = {key: _redacted(value, self._redact) for key, value in record.as_json().items()}
        line = (json.dumps(fields, ensure_ascii=False, allow_nan=False) + "\n").encode()
        before = os.fstat(self._file).st_size
        try:
            left = memoryview(line)
            while left:
                left = left[os.write(self._file, left) :]
            os.fsync(self._file)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, before)
            raise OSError(error.errno, error.strerror, str(self.folder / EPISODES_FILE)) from error
        self._keep(record)

    def _continuing(self) -> EvalSettings:
        return self.settings.continuing(
            read_settings(self.folder), str(self.folder), moved=self._moved, digest_of_first=self._digest_of_first
        )

    def _keep(self, record: EpisodeRecord) -> None:
        old = self.records.pop(record.key, None)
        if old is not None:
            for key in self.wasted:
                self.wasted[key] += old.tokens.get(key, 0)
        self.records[record.key] = without_transcript(record)

    def _lock(self) -> None:
        import fcntl

        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(f"{self.folder}: another evaluation is writing there; wait for it or give --out") from None


def _redacted(value: Any, redact: Callable[[str], str]) -> Any:
    """``value`` with every text in it redacted, but for the names of counts."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list | tuple):
        return [_redacted(item, redact) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {
            redact(key) if isinstance(item, str | list | dict) else key: _redacted(item, redact)
            for key, item in fields.items()
        }
    return value


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
    try:
        return EvalSettings.from_json(cast("dict[str, Any]", settings) if isinstance(settings, dict) else {})
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error


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
    settings, records, _ = read_history(folder, transcripts=transcripts)
    return settings, records


def read_history(
    folder: Path, *, transcripts: bool = False
) -> tuple[EvalSettings, list[EpisodeRecord], dict[str, int]]:
    """As `read_run`, with the ``prompt`` and ``completion`` tokens of episodes that a later one replaced.

    Raises:
        UsageError: it is no run.
    """
    settings = read_settings(folder)
    wasted = {"prompt": 0, "completion": 0}
    records: dict[tuple[str, int], EpisodeRecord] = {}
    for record in read_episodes(folder, transcripts=transcripts):
        before = records.get(record.key)
        records[record.key] = record
        if before is not None:
            for key in wasted:
                wasted[key] += before.tokens.get(key, 0)
    return settings, in_order(records.values()), wasted


def read_conversations(folder: Path) -> Iterator[tuple[tuple[str, int], Sequence[Mapping[str, Any]]]]:
    """The transcripts of the records that count, one after another: a run's need not fit the memory at once.

    Raises:
        UsageError: a line is no record.
    """
    last = {record.key: number for number, record in enumerate(read_episodes(folder, transcripts=False))}
    for number, record in enumerate(read_episodes(folder)):
        if last.get(record.key) == number:
            yield record.key, record.messages


def in_order(records: Iterable[EpisodeRecord]) -> list[EpisodeRecord]:
    """Records by task, in the order of the split, and repeat."""
    return sorted(records, key=lambda one: (one.index, one.task, one.repeat))


def write_whole(path: Path, text: str) -> None:
    """Write a file so that it is there whole or not at all."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
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
