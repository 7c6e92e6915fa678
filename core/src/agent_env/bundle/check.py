"""Everything that is wrong with a bundle, every seed row included."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agent_env.bundle.portable import portability
from agent_env.bundle.reader import load_bundle
from agent_env.bundle.substitute import SEED
from agent_env.errors import BundleError, Problem

if TYPE_CHECKING:
    from agent_env.bundle.step_types import StepRegistry
    from agent_env.bundle.template import TaskTemplate

MAX_ROW_PROBLEMS: Final = 20
"""Problems shown for the rows of one task; a wrong column would fill the screen."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What `check_bundle` found.

    Attributes:
        name: name of the bundle.
        path: its folder.
        served: number of tasks that would be served.
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
    try:
        bundle = load_bundle(folder, registry)
    except BundleError as error:
        if not error.problems:
            raise
        return CheckResult(folder.name, folder, 0, error.problems)
    problems = [*bundle.problems]
    for template in bundle.templates.values():
        problems.extend(_row_problems(template))
    return CheckResult(
        name=bundle.name,
        path=folder,
        served=len(bundle.splits["all"]),
        problems=tuple(problems),
        notes=bundle.notes,
        portable=tuple(portability(bundle)) if portable else (),
    )


def _row_problems(template: TaskTemplate) -> list[Problem]:
    seeds = template.seeds
    if seeds is None:
        return []
    found: list[Problem] = []
    left = 0
    seed = 0 if SEED in template.placeholders else None
    for row in range(len(seeds)):
        try:
            _, fields = template.key(row)
            template.build(row, fields, seed)
        except BundleError as error:
            if len(found) < MAX_ROW_PROBLEMS:
                found.extend(error.problems)
            else:
                left += 1
    if left:
        found.append(Problem(found[-1].path, f"{left} more lines have problems", task=template.name))
    return found
