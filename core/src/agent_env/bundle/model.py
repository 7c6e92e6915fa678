"""What a bundle is made of: envs, artifacts, tasks and splits. Plain data."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from agent_env.plugin.sandbox import BuildContext, ImageRef
    from agent_env.plugin.step import StepModel

SplitType = Literal["train", "validation", "test"]


@dataclass(frozen=True, slots=True)
class EnvSpec:
    """An env of the bundle.

    Attributes:
        name: its folder's name.
        id: full id.
        type: always ``mcp_server`` for an env that a served task uses.
        environment_name: the name on its card where the bundle says it, or `None`.
        image: what a sandbox runs.
        path: its folder.
        startup_timeout: seconds for its server to become ready, `None` = what a sandbox has by default.
    """

    name: str
    id: str
    type: str
    environment_name: str | None
    image: BuildContext | ImageRef
    path: Path
    startup_timeout: float | None = None


@dataclass(frozen=True, slots=True)
class Artifact:
    """An artifact of the bundle.

    Attributes:
        name: its folder's name.
        id: full id.
        type: ``file``, ``file_artifact_universe``, ``docker_image``, ``environment``, ...
        path: its folder.
        files: every file of it, absolute, sorted; ``artifact.toml`` is none of them.
        file: the one file of type ``file``, the payload of type ``environment``, else `None`.
        image: image of type ``docker_image``, else `None`.
    """

    name: str
    id: str
    type: str
    path: Path
    files: tuple[Path, ...]
    file: Path | None = None
    image: BuildContext | ImageRef | None = None


@dataclass(frozen=True, slots=True)
class TaskEntry:
    """A task as rows and listings show it: the first prompt filled in, nothing else read.

    Attributes:
        id: ``<template id>`` or ``<template id>/<key>``.
        name: ``<task file>`` or ``<task file>/<key>``.
        index: position within ``split``, from 0.
        split: name of the split.
        prompt: the first prompt.
        system_prompt: system prompt of the first turn, or `None`.
        toolset: digest; tasks with one digest offer the same tools.
        template: name of the task file.
    """

    id: str
    name: str
    index: int
    split: str
    prompt: str
    system_prompt: str | None
    toolset: str
    template: str


@dataclass(frozen=True, slots=True)
class Task:
    """A task ready to be played: its steps with every placeholder filled.

    Attributes:
        id: as `TaskEntry.id`.
        name: as `TaskEntry.name`.
        template: name of the task file.
        split: split it was asked from.
        index: position within the split.
        steps: the steps in file order; `StepModel.depends_on` `None` = after all earlier ones.
        scoring_steps: ids of the steps that record a score, in file order.
        toolset: as `TaskEntry.toolset`.
    """

    id: str
    name: str
    template: str
    split: str
    index: int
    steps: tuple[StepModel, ...]
    scoring_steps: tuple[str, ...]
    toolset: str


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows of one template within a split: numbers of seed rows, or ``range(1)`` for a task without seeds."""

    template: str
    rows: Sequence[int]


class Split:
    """The tasks of an eval, or all; a task's index counts within it."""

    __slots__ = ("_ends", "name", "segments", "type")

    def __init__(self, name: str, segments: Sequence[Segment]) -> None:
        self.name = name
        self.type: SplitType = split_type(name)
        self.segments = tuple(segment for segment in segments if len(segment.rows))
        self._ends = list(accumulate(len(segment.rows) for segment in self.segments))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __repr__(self) -> str:
        return f"Split({self.name!r}, {self.type!r}, {len(self)} tasks)"

    def locate(self, index: int) -> tuple[str, int]:
        """Template and seed row of task ``index``.

        Raises:
            IndexError: the split has no such task.
        """
        if not 0 <= index < len(self):
            raise IndexError(f"split {self.name!r} has {len(self)} tasks; there is no index {index}")
        position = bisect_right(self._ends, index)
        segment = self.segments[position]
        return segment.template, segment.rows[index - (self._ends[position] - len(segment.rows))]

    def spans(self, start: int, stop: int) -> Iterator[tuple[int, Segment, int, int]]:
        """The parts of ``start..stop``: index of the first task, the segment, its first row and the one past."""
        for end, segment in zip(self._ends, self.segments, strict=True):
            begin = end - len(segment.rows)
            low, high = max(start, begin), min(stop, end)
            if low < high:
                yield low, segment, low - begin, high - begin


def split_type(name: str) -> SplitType:
    """``train`` for ``all`` and names that begin with it, ``test`` for names that begin with it, else validation."""
    if name == "all" or name.startswith("train"):
        return "train"
    return "test" if name.startswith("test") else "validation"
