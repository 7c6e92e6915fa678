"""A bundle that was read: its tasks by split and index, without holding them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_env.bundle.evals import ALL
from agent_env.bundle.model import Segment, Split, Task, TaskEntry
from agent_env.bundle.names import did_you_mean, listing
from agent_env.errors import BundleError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from agent_env.bundle.entities import Entities
    from agent_env.bundle.model import Artifact, EnvSpec
    from agent_env.bundle.template import TaskTemplate
    from agent_env.errors import Problem


class Bundle:
    """The playable part of a bundle. It does not change; `leave_out` makes another one.

    Attributes:
        path: the folder.
        name: the folder's name.
        description: first line of text of ``README.md``, or ``""``.
        envs: usable envs by folder name.
        artifacts: usable artifacts by folder name.
        templates: playable tasks by name of the task file.
        splits: ``all`` first, then one for each eval that has playable tasks.
        left_out: why tasks are not served; `Problem.task` says which.
        problems: everything that is wrong: ``left_out``, and envs and artifacts that no task misses.
        notes: what is accepted but means nothing here.
    """

    def __init__(
        self,
        *,
        path: Path,
        name: str,
        description: str,
        entities: Entities,
        templates: Mapping[str, TaskTemplate],
        evals: Mapping[str, Sequence[Segment]],
        left_out: Sequence[Problem],
        unused: Sequence[Problem],
        notes: Sequence[Problem],
    ) -> None:
        self.path = path
        self.name = name
        self.description = description
        self.envs: Mapping[str, EnvSpec] = entities.envs
        self.artifacts: Mapping[str, Artifact] = entities.artifacts
        self.templates = templates
        self.left_out = tuple(left_out)
        self.problems = (*unused, *left_out)
        self.notes = tuple(notes)
        self.splits = _splits(templates, evals)
        self._entities = entities
        self._evals = evals
        self._unused = unused

    def __repr__(self) -> str:
        return f"Bundle({str(self.path)!r}, {len(self.splits[ALL])} tasks)"

    def split(self, name: str) -> Split:
        """The split of this name.

        Raises:
            BundleError: there is none; the message names those there are.
        """
        found = self.splits.get(name)
        if found is None:
            hint = did_you_mean(name, self.splits)
            raise BundleError(f"the bundle {self.name!r} has no split {name!r}{hint}; splits: {listing(self.splits)}")
        return found

    def entry(self, split: str, index: int) -> TaskEntry:
        """How task ``index`` of ``split`` looks in a listing.

        Raises:
            BundleError: no such split, or a seed row that does not fit. IndexError: no such task.
        """
        self.split(split).locate(index)
        return next(self.entries(split, index, index + 1))

    def entries(self, split: str, start: int = 0, stop: int | None = None) -> Iterator[TaskEntry]:
        """The tasks ``start`` to ``stop`` of ``split``, in order, read as they are asked for.

        Indexes outside the split are cut off as a slice does; negative ones are refused.

        Raises:
            BundleError: as for `entry`. IndexError: a negative index.
        """
        found = self.split(split)
        if start < 0 or (stop is not None and stop < 0):
            raise IndexError("task indexes count from 0")
        return self._entries(found, start, len(found) if stop is None else min(stop, len(found)))

    def _entries(self, split: Split, start: int, stop: int) -> Iterator[TaskEntry]:
        for index, segment, low, high in split.spans(start, stop):
            template = self.templates[segment.template]
            for offset, (key, prompt, system_prompt) in enumerate(template.heads(segment.rows[low:high])):
                identifier, name = (
                    (f"{template.id}/{key}", f"{template.name}/{key}")
                    if key
                    else (
                        template.id,
                        template.name,
                    )
                )
                yield TaskEntry(
                    identifier, name, index + offset, split.name, prompt, system_prompt, template.toolset, template.name
                )

    def task(self, split: str, index: int, *, seed: int | None = None) -> Task:
        """Task ``index`` of ``split`` with every placeholder filled.

        Args:
            split: name of the split.
            index: position within it, from 0.
            seed: fills the placeholder ``<seed>``; a task without one refuses it.

        Raises:
            BundleError: no such split, or a seed row that does not fit the task. IndexError: no such task.
            UsageError: a seed for a task without ``<seed>``, or none for a task with it.
        """
        name, row = self.split(split).locate(index)
        template = self.templates[name]
        key, fields = template.key(row)
        return Task(
            id=f"{template.id}/{key}" if key else template.id,
            name=f"{template.name}/{key}" if key else template.name,
            template=template.name,
            split=split,
            index=index,
            steps=template.build(row, fields, seed),
            scoring_steps=template.scoring_steps,
            toolset=template.toolset,
        )

    def env(self, name: str) -> EnvSpec:
        """The env of this folder name, full id or alias.

        Raises:
            BundleError: there is none, or it cannot be used.
        """
        problem = self._entities.problem("env", name)
        if problem is not None:
            raise BundleError(problem)
        return self.envs[self._entities.names("env")[name]]

    def artifact(self, name: str) -> Artifact:
        """The artifact of this folder name or full id.

        Raises:
            BundleError: there is none, or it cannot be used.
        """
        problem = self._entities.problem("artifact", name)
        if problem is not None:
            raise BundleError(problem)
        return self.artifacts[self._entities.names("artifact")[name]]

    def leave_out(self, problems: Sequence[Problem]) -> Bundle:
        """A copy without the tasks that ``problems`` name, with the problems added to `left_out`."""
        gone = {problem.task for problem in problems}
        return Bundle(
            path=self.path,
            name=self.name,
            description=self.description,
            entities=self._entities,
            templates={name: template for name, template in self.templates.items() if name not in gone},
            evals=self._evals,
            left_out=(*self.left_out, *problems),
            unused=self._unused,
            notes=self.notes,
        )


def _splits(templates: Mapping[str, TaskTemplate], evals: Mapping[str, Sequence[Segment]]) -> Mapping[str, Split]:
    everything = [Segment(name, range(template.size)) for name, template in templates.items()]
    splits = {ALL: Split(ALL, everything)}
    for name, segments in evals.items():
        split = Split(name, [segment for segment in segments if segment.template in templates])
        if len(split):
            splits[name] = split
    return splits
