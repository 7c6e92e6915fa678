"""Reads ``tasks/<name>.json`` and checks everything that can be known before it is played."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, cast

from agent_env.bundle import jsontext
from agent_env.bundle.graph import StepGraph
from agent_env.bundle.names import MAX_ID_BYTES, did_you_mean
from agent_env.bundle.references import reference_problems
from agent_env.bundle.rules import Rules
from agent_env.bundle.seeds import SeedFile
from agent_env.bundle.steps.agent import DeployAgent
from agent_env.bundle.substitute import SEED, Leaf, compiled, fill, keys_of, placeholder_pattern, words_in
from agent_env.bundle.template import Head, StepPlan, TaskTemplate
from agent_env.bundle.toolset import digest
from agent_env.bundle.validation import validate
from agent_env.errors import BundleError

if TYPE_CHECKING:
    from pathlib import Path

    from agent_env.bundle.entities import Entities
    from agent_env.bundle.findings import Findings
    from agent_env.bundle.step_types import StepTypes
    from agent_env.plugin.step import StepModel

_FIXED: Final = frozenset(
    {
        *("id", "type", "depends_on", "env_id", "env_ids", "env_step_id", "prompt_id", "context_id", "agent_name"),
        *("sandbox_name", "verifier_id", "verifier_ids", "result_id"),
    }
)
"""Fields that tie steps together; a placeholder there would make every row a task of another shape."""

_SAMPLE_SEED: Final = 1
_IDENTIFIER: Final = re.compile(r"[^\W\d][\w-]*")


class TaskReader:
    """Reads one task file; everything that is wrong goes to ``findings``.

    Attributes:
        name: name of the task file.
        seeds: its seed file, `None` without one and when it cannot be read at all.
        template: the task when its steps are right, also when it is left out for its seeds.
        used: placeholders that the task uses and rows fill.
    """

    def __init__(
        self, name: str, path: Path, seeds: Path | None, root: Path, findings: Findings, entities: Entities
    ) -> None:
        self.name = name
        self._path = path
        self._seeds_path = seeds
        self._root = root
        self._findings = findings
        self._entities = entities
        self._text = ""
        self._lines: dict[jsontext.Path, int] | None = None
        self._indexes: dict[str, int] = {}
        self._sample: dict[str, Any] = {}
        self._told: set[str] = set()
        self.seeds: SeedFile | None = None
        self.template: TaskTemplate | None = None
        self.used: frozenset[str] = frozenset()

    def read(self, identifier: str, types: StepTypes) -> TaskTemplate | None:
        """The task, or `None` when it cannot be played."""
        before = len(self._findings.tasks)
        self._open_seeds()
        raw_steps = self._load()
        seeds_are_fine = self._read_sample(raw_steps or [])
        without_seeds = before
        before = len(self._findings.tasks)
        if len(identifier.encode(errors="replace")) > MAX_ID_BYTES:
            self._problem(f"its id is longer than {MAX_ID_BYTES} bytes")
        if raw_steps is None:
            return None
        pattern = placeholder_pattern(self._sample)
        self.used = keys_of(compiled(cast("Any", raw_steps), pattern)) - {SEED}
        self._note_unfilled(raw_steps)
        plans: list[StepPlan] = []
        sample: list[StepModel] = []
        values = self._sample_values(pattern, raw_steps) if seeds_are_fine else None
        for index, raw in enumerate(raw_steps):
            plan = self._plan(index, raw, pattern, values, types, sample)
            if plan is not None:
                plans.append(plan)
        if len(self._findings.tasks) > before or values is None:
            return None
        graph = StepGraph(sample, self._step_problem)
        if graph.order:
            Rules(graph, self._entities, self._step_problem).check()
        for step in sample:
            for field, message in reference_problems(step, self._entities):
                self._step_problem(step, field, message)
        if len(self._findings.tasks) > before:
            return None
        self.template = self._template(identifier, raw_steps, plans, graph)
        return self.template if len(self._findings.tasks) == without_seeds else None

    # -- reading ------------------------------------------------------------------------------------------------------

    def _open_seeds(self) -> None:
        if self._seeds_path is None:
            return
        try:
            self.seeds = SeedFile(self._seeds_path, shown=self._seeds_path.relative_to(self._root), task=self.name)
            twice = self.seeds.repeated_key()
        except BundleError as error:
            self._findings.tasks.extend(error.problems)
            return
        if twice is not None:
            key, first, second = twice
            message = f"the key {key!r} is also that of line {first}; a key makes the task's id, so it has to be unique"
            self._findings.task(self.name, self._seeds_path, message, line=second)

    def _load(self) -> list[dict[str, Any]] | None:
        try:
            data = self._path.read_bytes()
            value = jsontext.parse(data)
        except OSError as error:
            self._problem(f"cannot be read: {error.strerror or error}")
            return None
        except jsontext.JsonProblem as error:
            self._findings.task(self.name, self._path, error.message, line=error.line)
            return None
        self._text = data.decode()
        if not isinstance(value, list) or not value:
            self._problem("has to be a JSON list of steps with at least one step", line=1)
            return None
        steps: list[dict[str, Any]] = []
        for index, step in enumerate(cast("list[object]", value)):
            if not isinstance(step, dict):
                self._problem("a step has to be a JSON object", line=self._line((index,)))
            else:
                steps.append(cast("dict[str, Any]", step))
        return steps if len(steps) == len(cast("list[object]", value)) else None

    def _read_sample(self, raw_steps: list[dict[str, Any]]) -> bool:
        """The first row, and from later ones what it lacks of the words that the task may use; whether there is one."""
        if self._seeds_path is None:
            return True
        if self.seeds is None:
            return False
        try:
            first = self.seeds.row(0)
            more = self.seeds.first_with({word for word in words_in(raw_steps) if word != SEED} - first.keys())
        except BundleError as error:
            self._findings.tasks.extend(error.problems)
            return False
        self._sample = {**more, **first}
        return True

    def _sample_values(self, pattern: re.Pattern[str], raw_steps: list[dict[str, Any]]) -> dict[str, Any] | None:
        """A row and a seed: with them the task is checked as a whole. `None` = the seeds cannot be used."""
        values = self._sample
        if SEED in values and SEED in keys_of(compiled(cast("Any", raw_steps), pattern)):
            message = (
                f"has a field {SEED!r} while the task uses <{SEED}>, which the seed of reset fills; rename the field"
            )
            self._findings.task(self.name, self._seeds_path or self._path, message, line=1)
            return None
        return {**values, SEED: _SAMPLE_SEED}

    def _note_unfilled(self, raw_steps: list[dict[str, Any]]) -> None:
        """Name what looks like a placeholder of a seeded task and is filled by no row."""
        if self.seeds is None or not self._sample:
            return
        told: set[str] = set()
        closed = set(words_in(raw_steps))
        for index, raw in enumerate(raw_steps):
            for word in words_in(raw):
                plain = _IDENTIFIER.fullmatch(word) is not None and f"/{word}" not in closed  # markup is no placeholder
                if plain and word != SEED and word not in self._sample and word not in told:
                    told.add(word)
                    hint = did_you_mean(word, self._sample)
                    step = raw.get("id")
                    self._findings.note(
                        self._path,
                        f"<{word}> stays as it is: no line of the seeds has a field {word!r}{hint}",
                        step=step if isinstance(step, str) else None,
                        line=self._line((index,)),
                        task=self.name,
                    )

    # -- one step -----------------------------------------------------------------------------------------------------

    def _plan(
        self,
        index: int,
        raw: dict[str, Any],
        pattern: re.Pattern[str],
        values: dict[str, Any] | None,
        types: StepTypes,
        sample: list[StepModel],
    ) -> StepPlan | None:
        identifier = self._envelope(index, raw)
        kind = raw.get("type")
        if identifier is None or not isinstance(kind, str):
            return None
        model = types.find(kind)
        if isinstance(model, str):
            self._problem(model, step=identifier, line=self._line((index, "type")))
            return None
        raw = self._without_retry(index, raw, identifier)
        node = compiled(raw, pattern)
        for field in sorted(_FIXED & raw.keys()):
            if keys_of(compiled(raw[field], pattern)):
                message = f"field {field!r} cannot hold a placeholder: it ties steps together"
                self._problem(message, step=identifier, line=self._line((index, field)))
                return None
        if values is None and "<" in repr(raw):
            return None  # without its seeds a step with placeholders cannot be judged
        step, wrong = validate(model, fill(node, values or {}))
        for problem in wrong:
            self._problem(problem.message, step=identifier, line=self._line((index, *problem.path)))
        if step is None:
            return None
        sample.append(step)
        self._note_meaningless(index, step)
        return StepPlan(node=node, model=model, ready=None if keys_of(node) else step)

    def _envelope(self, index: int, raw: dict[str, Any]) -> str | None:
        """Check ``id`` and ``type``; the id when it is usable."""
        identifier = raw.get("id")
        shown = identifier if isinstance(identifier, str) else f"#{index + 1}"
        if not isinstance(identifier, str) or not identifier:
            hint = "" if "id" in raw else did_you_mean("id", [key for key in raw if len(key) < 5])
            message = f"field 'id' has to be a string that is not empty{hint}"
            self._problem(message, step=shown, line=self._line((index, "id")))
        elif identifier in self._indexes:
            message = f"the id {identifier!r} is also that of step #{self._indexes[identifier] + 1}"
            self._problem(message, step=shown, line=self._line((index, "id")))
        else:
            self._indexes[identifier] = index
        if not isinstance(raw.get("type"), str):
            self._problem("field 'type' has to name a step type", step=shown, line=self._line((index, "type")))
        return identifier if isinstance(identifier, str) and identifier else None

    def _without_retry(self, index: int, raw: dict[str, Any], identifier: str) -> dict[str, Any]:
        if "retry_config" not in raw:
            return raw
        if raw["retry_config"] is not None:
            message = "field 'retry_config': rolling a task back is a feature of the format that AgentEnv does not play"
            self._problem(message, step=identifier, line=self._line((index, "retry_config")))
        return {key: value for key, value in raw.items() if key != "retry_config"}

    def _note_meaningless(self, index: int, step: StepModel) -> None:
        for field in sorted(step.model_fields_set & type(step).fields_without_meaning):
            self._findings.note(
                self._path,
                f"field {field!r} is accepted and means nothing for a played agent",
                step=step.id,
                line=self._line((index, field)),
                task=self.name,
            )

    # -- the template -------------------------------------------------------------------------------------------------

    def _template(
        self, identifier: str, raw_steps: list[dict[str, Any]], plans: list[StepPlan], graph: StepGraph
    ) -> TaskTemplate:
        first = next(number for number in graph.order if graph.steps[number].prompts)
        agent = next((n for n, step in enumerate(graph.steps) if isinstance(step, DeployAgent)), None)
        prompt = _field(plans[first], "prompt")
        if not isinstance(prompt, (str, Leaf)):
            prompt = ""  # a plugin's step that makes its prompt when it runs
            self._note_unknown_prompt(graph.steps[first])
        system_prompt = _field(plans[first], "system_prompt")
        if system_prompt is None and agent is not None:
            system_prompt = _field(plans[agent], "system_prompt")
        if SEED in keys_of(prompt) | keys_of(system_prompt):
            self._note_seed_in_prompt(graph.steps[first])
        return TaskTemplate(
            name=self.name,
            identifier=identifier,
            path=self._path.relative_to(self._root),
            steps=[_unfilled(plan, raw) for plan, raw in zip(plans, raw_steps, strict=True)],
            plans=plans,
            head=Head(prompt, system_prompt),
            toolset=digest(raw_steps, self._entities),
            seeds=self.seeds,
            entities=self._entities,
        )

    def _note_seed_in_prompt(self, step: StepModel) -> None:
        message = "<seed> in the first prompt stays as text in the rows of a trainer: they are written before any reset"
        self._findings.note(self._path, message, step=step.id, task=self.name)

    def _note_unknown_prompt(self, step: StepModel) -> None:
        message = f"a step of type {step.type!r} makes its prompt when it runs; the rows of a trainer have an empty one"
        self._findings.note(self._path, message, step=step.id, task=self.name)

    # -- where --------------------------------------------------------------------------------------------------------

    def _problem(self, message: str, *, step: str | None = None, line: int | None = None) -> None:
        self._findings.task(self.name, self._path, message, step=step, line=line)

    def _step_problem(self, step: StepModel | None, field: str | None, message: str) -> None:
        if step is None:
            self._problem(message)
            return
        unusable = message in self._entities.unusable
        if unusable and message in self._told:  # once for a task, however many steps use it
            return
        path: jsontext.Path = (self._indexes[step.id],) if field is None else (self._indexes[step.id], field)
        where = "" if field is None else f"field {field!r}: "
        self._problem(f"{where}{message}", step=step.id, line=self._line(path))
        if unusable:
            self._told.add(message)
            self._findings.consequences.add(self._findings.tasks[-1])

    def _line(self, path: jsontext.Path) -> int | None:
        if self._lines is None:
            self._lines = jsontext.lines(self._text)
        while path and path not in self._lines:
            path = path[:-1]
        return self._lines.get(path)


def _field(plan: StepPlan, name: str) -> Any:
    """The compiled value of a field."""
    if plan.ready is not None:
        return getattr(plan.ready, name, None)
    return plan.node.member(name)


def _unfilled(plan: StepPlan, raw: dict[str, Any]) -> StepModel:
    if plan.ready is not None:
        return plan.ready
    step, _ = validate(plan.model, raw)
    return step if step is not None else plan.model.model_construct(**raw)
