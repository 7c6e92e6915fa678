"""A task file that can be played: its steps with their placeholders, and the seed rows that fill them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent_env.bundle.references import reference_problems
from agent_env.bundle.substitute import SEED, fill, keys_of
from agent_env.bundle.validation import validate
from agent_env.errors import BundleError, Problem, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from agent_env.bundle.entities import Entities
    from agent_env.bundle.seeds import SeedFile
    from agent_env.plugin.step import StepModel


@dataclass(frozen=True, slots=True)
class StepPlan:
    """How to make a step: ready when it holds no placeholder, else its compiled JSON and its model."""

    node: Any
    model: type[StepModel]
    ready: StepModel | None


@dataclass(frozen=True, slots=True)
class Head:
    """Compiled prompt and system prompt of the first turn."""

    prompt: Any
    system_prompt: Any


class TaskTemplate:
    """A playable task file.

    Attributes:
        name: the file's name without ``.json``.
        id: full id.
        path: the file, relative to the bundle.
        steps: the steps in file order, placeholders unfilled. Where a placeholder stands in a field that is no
            string, the step was not validated as it stands here; those of `Bundle.task` always are.
        scoring_steps: ids of the steps that record a score, in file order.
        placeholders: keys that the seed rows fill, ``seed`` (filled by reset) included when it is used.
        toolset: digest; tasks with one digest offer the same tools.
        seeded: whether it has a seed file; its rows are the tasks then, the file itself is none.
        size: number of tasks.
    """

    def __init__(
        self,
        *,
        name: str,
        identifier: str,
        path: Path,
        steps: Sequence[StepModel],
        plans: Sequence[StepPlan],
        head: Head,
        toolset: str,
        seeds: SeedFile | None,
        entities: Entities,
    ) -> None:
        self.name = name
        self.id = identifier
        self.path = path
        self.steps = tuple(steps)
        self.scoring_steps = tuple(step.id for step in steps if step.scores)
        self.placeholders = frozenset(key for plan in plans for key in keys_of(plan.node))
        self.toolset = toolset
        self.seeded = seeds is not None
        self.size = 1 if seeds is None else len(seeds)
        self.seeds = seeds
        self._plans = tuple(plans)
        self._head = head
        self._head_keys = keys_of(head.prompt) | keys_of(head.system_prompt)
        self._row_keys = self.placeholders - {SEED}
        self._entities = entities

    def __repr__(self) -> str:
        return f"TaskTemplate({self.name!r}, {self.size} tasks)"

    # -- one task -----------------------------------------------------------------------------------------------------

    def key(self, row: int) -> tuple[str, dict[str, Any]]:
        """The key of a seed row and its fields; ``""`` and nothing for a task without seeds."""
        if self.seeds is None:
            return "", {}
        fields = self.seeds.row(row)
        return self.seeds.key(row, fields), fields

    def build(self, row: int, fields: Mapping[str, Any], seed: int | None) -> tuple[StepModel, ...]:
        """The steps of one task with every placeholder filled.

        Raises:
            UsageError: a seed is given and there is no ``<seed>``, or the other way round.
            BundleError: the row does not fit the task; with file and line.
        """
        if (seed is None) == (SEED in self.placeholders):
            if seed is None:
                raise UsageError(f"task {self.name!r} uses <seed>: give a seed with the reset")
            raise UsageError(f"task {self.name!r} has no placeholder <seed>, so a seed has no effect; leave it out")
        lacking = None if self.seeds is None else self.seeds.missing(self._row_keys, row, fields)
        if lacking is not None:
            raise lacking
        values = fields if seed is None else {**fields, SEED: seed}
        wrong: list[str] = []
        steps: list[StepModel] = []
        for plan in self._plans:
            step = plan.ready if plan.ready is not None else self._step(plan, values, wrong)
            if step is not None:
                steps.append(step)
        if wrong:
            raise self._refusal(row, wrong)
        return tuple(steps)

    def _step(self, plan: StepPlan, values: Mapping[str, Any], wrong: list[str]) -> StepModel | None:
        raw = fill(plan.node, values)
        step, problems = validate(plan.model, raw)
        wrong.extend(f"step {raw['id']!r}: {problem.message}" for problem in problems)
        if step is not None:
            found = reference_problems(step, self._entities)
            wrong.extend(f"step {step.id!r}: field {field!r}: {message}" for field, message in found)
        return step

    def _refusal(self, row: int, wrong: Sequence[str]) -> BundleError:
        if self.seeds is not None:
            return self.seeds.problem("; ".join(wrong), self.seeds.line(row))
        problems = [Problem(self.path, message, task=self.name) for message in wrong]
        return BundleError(f"task {self.name!r} does not take this seed", problems)

    # -- listings -----------------------------------------------------------------------------------------------------

    def heads(self, rows: Sequence[int]) -> Iterator[tuple[str, str, str | None]]:
        """Key, first prompt and system prompt of these rows, with nothing else filled or checked."""
        if self.seeds is None:
            values = {SEED: f"<{SEED}>"}
            for _ in rows:
                yield "", *self._texts(0, values)
            return
        needed = self._head_keys - {SEED}
        for row, fields in self.seeds.rows(rows):
            if not needed <= fields.keys():
                lacking = self.seeds.missing(needed, row, fields)
                if lacking is not None:
                    raise lacking
            key = self.seeds.key(row, fields)
            if SEED in self._head_keys:
                fields[SEED] = f"<{SEED}>"
            yield key, *self._texts(row, fields)

    def _texts(self, row: int, values: Mapping[str, Any]) -> tuple[str, str | None]:
        prompt = fill(self._head.prompt, values)
        system_prompt = fill(self._head.system_prompt, values)
        if not isinstance(prompt, str) or (not prompt and self._head.prompt != ""):
            raise self._refusal(row, [f"the prompt has to be a string that is not empty, not {prompt!r}"])
        if system_prompt is not None and not isinstance(system_prompt, str):
            raise self._refusal(row, [f"the system prompt has to be a string, not {system_prompt!r}"])
        return prompt, system_prompt
