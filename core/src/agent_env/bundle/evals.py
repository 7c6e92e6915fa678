"""Reads ``evals/<name>.toml``: the splits of a bundle."""

from __future__ import annotations

import fnmatch
import re
from array import array
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from agent_env.bundle.model import Segment
from agent_env.bundle.names import did_you_mean, id_problem, listing
from agent_env.bundle.tomltext import TomlFile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from agent_env.bundle.findings import Findings
    from agent_env.bundle.seeds import SeedFile

ALL: Final = "all"
_GLOB: Final = re.compile(r"[*?\[]")


class TaskNames:
    """All tasks of the bundle by name, also those that cannot be played: an eval may name them."""

    def __init__(self, tasks: Mapping[str, SeedFile | None], unreadable: set[str]) -> None:
        """``tasks``: seeds by task file, `None` = without; ``unreadable``: tasks whose seeds could not be read."""
        self._tasks = tasks
        self._unreadable = unreadable

    def match(self, pattern: str) -> list[Segment] | str:
        """The rows that ``pattern`` names by task file, or what is wrong with it."""
        if not _GLOB.search(pattern):
            return self._exact(pattern)
        found: list[Segment] = []
        fits = re.compile(fnmatch.translate(pattern)).match
        fixed = _GLOB.split(pattern, maxsplit=1)[0]
        possible = False
        for task, seeds in self._tasks.items():
            if seeds is None and task not in self._unreadable:
                rows: Sequence[int] = range(1) if fits(task) else ()
            else:
                start = f"{task}/"
                if not (fixed.startswith(start) or start.startswith(fixed)):
                    continue
                possible = possible or task in self._unreadable
                rows = () if seeds is None else _matching(pattern, start, seeds, fits)
            if len(rows):
                found.append(Segment(task, rows))
        if not found and not possible:
            return f"{pattern!r} matches no task; the bundle has: {self._known()}"
        return found

    def _exact(self, name: str) -> list[Segment] | str:
        if name in self._tasks:
            if self._tasks[name] is None and name not in self._unreadable:
                return [Segment(name, range(1))]
            return f"{name!r} is a template with seeds, which is itself no task; write '{name}/*' for all its tasks"
        task, _, key = name.partition("/")
        seeds = self._tasks.get(task)
        if key and task in self._unreadable:
            return []
        if seeds is not None and key:
            for number, own in enumerate(seeds.keys()):
                if own == key:
                    return [Segment(task, array("L", [number]))]
            return f"there is no task {name!r}: no line of the seeds of {task!r} has the key {key!r}"
        return f"there is no task {name!r}{did_you_mean(name, self._tasks) or f'; the bundle has: {self._known()}'}"

    def _known(self) -> str:
        return listing(task if seeds is None else f"{task}/*" for task, seeds in sorted(self._tasks.items()))


def _matching(pattern: str, start: str, seeds: SeedFile, fits: Any) -> Sequence[int]:
    """Rows whose task name fits; ``<task>/*`` and ``*`` take all without reading a line."""
    if pattern in {f"{start}*", "*", f"{start}**"}:
        return range(len(seeds))
    return array("L", (number for number, key in enumerate(seeds.keys()) if fits(f"{start}{key}")))


def read_eval(name: str, path: Path, tasks: TaskNames, findings: Findings) -> list[Segment]:
    """The rows of an eval in the order it names them."""
    toml = TomlFile(path, findings.bundle)
    if name == ALL:
        findings.bundle(path, f"an eval cannot be named {ALL!r}: that is the split of every task")
    if not toml.readable:
        return []
    toml.refuse_unknown(("tasks", "type", "id"))
    kind = toml.table.get("type", "eval")
    if kind != "eval":
        toml.problem("type", f"'type' has to be \"eval\", not {kind!r}")
    own_id = toml.text("id")
    wrong_id = id_problem(own_id) if own_id is not None else None
    if wrong_id is not None:
        toml.problem("id", wrong_id)
    named = toml.table.get("tasks")
    if not isinstance(named, list) or not named:
        toml.problem("tasks", "'tasks' has to be a list of task names with at least one name")
        return []
    return _segments(cast("list[object]", named), tasks, partial(_task_problem, toml))


def _task_problem(toml: TomlFile, message: str) -> None:
    toml.problem("tasks", message)


def _segments(named: list[object], tasks: TaskNames, problem: Any) -> list[Segment]:
    segments: list[Segment] = []
    seen: set[str] = set()
    taken: dict[str, list[tuple[str, Sequence[int]]]] = {}
    for item in named:
        if not isinstance(item, str) or not item:
            problem(f"'tasks' holds {item!r}; a task is named by a string")
            continue
        if item in seen:
            problem(f"'tasks' names {item!r} twice")
            continue
        seen.add(item)
        found = tasks.match(item)
        if isinstance(found, str):
            problem(found)
            continue
        for segment in found:
            for other, rows in taken.get(segment.template, ()):
                if _overlap(rows, segment.rows):
                    problem(f"{item!r} and {other!r} name the same task of {segment.template!r}; a task stands once")
                    break
            taken.setdefault(segment.template, []).append((item, segment.rows))
        segments.extend(found)
    return segments


def _overlap(one: Sequence[int], other: Sequence[int]) -> bool:
    if isinstance(one, range) or isinstance(other, range):  # a range is every row
        return bool(len(one) and len(other))
    return not set(one).isdisjoint(other)
