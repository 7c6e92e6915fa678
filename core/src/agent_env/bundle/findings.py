"""Collects everything that is wrong with a bundle, so that it can be reported at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_env.errors import Problem

if TYPE_CHECKING:
    from pathlib import Path


class Findings:
    """Problems and notes by what they concern.

    ``fatal`` problems make the whole bundle unreadable. Those of a task leave the task out; those of another entity
    (an env, an artifact, ...) leave out the tasks that use it; such a task's problem is among the ``consequences``.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self.fatal: list[Problem] = []
        self.tasks: list[Problem] = []
        self.entities: dict[tuple[str, str], list[Problem]] = {}
        self.notes: list[Problem] = []
        self.consequences: set[Problem] = set()

    def _relative(self, path: Path) -> Path:
        return path.relative_to(self._root) if path.is_relative_to(self._root) else path

    def bundle(self, path: Path, message: str, *, line: int | None = None) -> None:
        """A problem of the bundle as a whole."""
        self.fatal.append(Problem(self._relative(path), message, line=line))

    def entity(self, kind: str, name: str, path: Path, message: str, *, line: int | None = None) -> None:
        """A problem of an env, an agent, an artifact or a skill."""
        problem = Problem(self._relative(path), message, line=line)
        self.entities.setdefault((kind, name), []).append(problem)

    def task(self, task: str, path: Path, message: str, *, step: str | None = None, line: int | None = None) -> None:
        """A problem of a task."""
        self.tasks.append(Problem(self._relative(path), message, step=step, line=line, task=task))

    def causes(self) -> list[Problem]:
        """Every problem, without those that only say that another one leaves a task out."""
        entities = [problem for problems in self.entities.values() for problem in problems]
        return [*self.fatal, *entities, *(problem for problem in self.tasks if problem not in self.consequences)]

    def note(
        self, path: Path, message: str, *, step: str | None = None, line: int | None = None, task: str | None = None
    ) -> None:
        """Something that is accepted but that the author should know."""
        self.notes.append(Problem(self._relative(path), message, step=step, line=line, task=task))

    def failed_tasks(self) -> set[str]:
        """Names of the tasks that have problems."""
        return {problem.task for problem in self.tasks if problem.task is not None}
