"""Everything that is wrong with a bundle, every seed row included."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agent_env.bundle.portable import portability
from agent_env.bundle.reader import read_folder
from agent_env.bundle.substitute import SEED
from agent_env.errors import BundleError, Problem

if TYPE_CHECKING:
    from agent_env.bundle.step_types import StepRegistry
    from agent_env.bundle.tasks import TaskReader

MAX_ROW_PROBLEMS: Final = 20
"""Problems shown for the rows of one task; a wrong column would fill the screen."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What `check_bundle` found.

    Attributes:
        name: name of the bundle.
        path: its folder.
        served: number of tasks that would be served; those of lines with problems do not count.
        problems: everything that is wrong.
        notes: what is accepted but means nothing.
        portable: what other readers of the format refuse, when it was asked for.
    """

    name: str
    path: Path
    served: int
    problems: tuple[Problem, ...]
    notes: tuple[Problem, ...] = ()
    portable: tuple[Problem, ...] = ()


def check_bundle(path: str | Path, *, portable: bool = False, registry: StepRegistry | None = None) -> CheckResult:
    """Read the bundle in the folder ``path`` and every row of its seeds.

    Raises:
        BundleError: there is no bundle in the folder. Problems of a bundle are returned, not raised.
    """
    folder = Path(path).absolute()
    reading = read_folder(folder, registry)
    rows = {name: _row_problems(reader) for name, reader in reading.tasks.items()}
    of_rows = [problem for found, _ in rows.values() for problem in found]
    try:
        bundle = reading.bundle()
    except BundleError as error:
        problems = _once([*error.problems, *of_rows])
        if not problems:
            raise
        return CheckResult(folder.name, folder, 0, problems, tuple(reading.findings.notes))
    return CheckResult(
        name=bundle.name,
        path=folder,
        served=len(bundle.splits["all"]) - sum(rows[name][1] for name in bundle.templates),
        problems=_once([*reading.findings.causes(), *of_rows]),
        notes=bundle.notes,
        portable=tuple(portability(bundle)) if portable else (),
    )


def _once(problems: list[Problem]) -> tuple[Problem, ...]:
    return tuple(dict.fromkeys(problems))


def _row_problems(reader: TaskReader) -> tuple[list[Problem], int]:
    """What is wrong with the rows of a task, and how many of them cannot be played."""
    seeds = reader.seeds
    if seeds is None:
        return [], 0
    found: list[Problem] = []
    wrong = 0
    template = reader.template
    seed = 0 if template is not None and SEED in template.placeholders else None
    for row in range(len(seeds)):
        try:
            fields = seeds.row(row)
            seeds.key(row, fields)
            if template is not None:
                template.build(row, fields, seed)
            elif (lacking := seeds.missing(reader.used, row, fields)) is not None:
                raise lacking
        except BundleError as error:
            wrong += 1
            if wrong <= MAX_ROW_PROBLEMS:
                found.extend(error.problems)
    if wrong > MAX_ROW_PROBLEMS:
        message = f"{wrong - MAX_ROW_PROBLEMS} more lines have problems"
        found.append(Problem(found[-1].path, message, task=reader.name))
    return found, wrong
