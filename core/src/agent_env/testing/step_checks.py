"""The checks of a step type."""

from __future__ import annotations

import asyncio
import inspect
import json
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast
from unittest import SkipTest

from agent_env.errors import UsageError
from agent_env.plugin.step import StepModel
from agent_env.testing.checks import Checks
from agent_env.testing.fakes import FakeEpisode
from agent_env.testing.small import ENV, make_room
from pydantic import ValidationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from agent_env.episode import Outcome
    from agent_env.plugin.sandbox import Sandbox
    from agent_env.registry import Registry
    from agent_env.testing.checks import Target
    from agent_env.testing.in_process import InProcessEnv

ID: Final = "checked"
_MOST_TURNS: Final = 50
_ENVELOPE: Final = frozenset(StepModel.model_fields)


@dataclass(frozen=True, slots=True)
class StepCase:
    """What is checked.

    Attributes:
        name: the step type's name.
        fields: fields of a step beside ``id`` and ``type`` that make sense.
        wrong: fields that must be refused.
        replies: what the agent answers to the step's own prompts.
        score: the score that the step must record; `None` = it records none, or any.
        envs: makes the envs that the step uses, by env name; they are deployed before it.
        sandboxes: makes the sandboxes that the step uses, by name; a real episode is then not played.
        before: steps of the task before it, beside those that deploy the envs and the agent.
        registry: where the step type is found; `None` = what is installed.
    """

    name: str
    fields: Mapping[str, Any] = field(default_factory=dict[str, Any])
    wrong: Sequence[Mapping[str, Any]] = ()
    replies: Sequence[str] = ("done",)
    score: float | None = None
    envs: Mapping[str, Callable[[], InProcessEnv]] = field(default_factory=lambda: {ENV: make_room})
    sandboxes: Mapping[str, Callable[[], Sandbox]] = field(
        default_factory=lambda: cast("dict[str, Callable[[], Sandbox]]", {})
    )
    before: Sequence[Mapping[str, Any]] = ()
    registry: Registry | None = None

    def plugins(self) -> Registry:
        """The registry."""
        from agent_env.registry import default_registry

        return self.registry or default_registry()

    @property
    def step(self) -> dict[str, Any]:
        """The step as a task file has it."""
        return {"id": ID, "type": self.name, **self.fields}

    def model(self) -> type[StepModel]:
        """The model of the step's fields."""
        plugins = self.plugins()
        found: object = plugins.load_string("step", self.name, plugins.info("step", self.name).model)
        if not (isinstance(found, type) and issubclass(found, StepModel)):
            raise AssertionError(  # noqa: TRY004 - a failed check
                f"the model is {found!r}, expected a subclass of StepModel"
            )
        return found

    def read(self) -> StepModel:
        """The step, read as the bundle reader reads it."""
        return self.model().model_validate(json.loads(json.dumps(self.step)))

    def run(self) -> Callable[[StepModel, Any], Any]:
        """What runs the step."""
        found: object = self.plugins().load("step", self.name)
        assert callable(found), f"run is {found!r}, expected a function"
        return found


class StepChecks(Checks):
    """The contract of `agent_env.plugin.step`."""

    kind: ClassVar[str] = "step"
    case: StepCase

    @classmethod
    def case_of(cls, target: Target) -> StepCase:
        """The options are the step's fields, as JSON or as text; ``reply=`` is what the agent answers."""
        if target.registry.provider("step", target.name).partition(" ")[0] == "agentenv-core":
            raise UsageError(f"{target.name!r} is a step type of the core, whose own tests check it")
        options = dict(target.options)
        reply = options.pop("reply", None)
        case = StepCase(target.name, {key: _value(text) for key, text in options.items()}, registry=target.registry)
        case = case if reply is None else replace(case, replies=(reply,))
        try:
            case.read()
        except ValidationError as error:
            lines = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
            raise UsageError(
                f"give the step's fields as --option FIELD=VALUE, the value as JSON or text: {'; '.join(lines)}"
            ) from error
        return case

    def test_it_is_found_by_its_name(self) -> None:
        """The registry finds it, its summary is one line, and its model is a `StepModel`."""
        summary = self.case.plugins().info("step", self.case.name).summary
        assert summary.strip(), "the summary is empty"
        assert "\n" not in summary, f"the summary has several lines: {summary!r}"
        self.case.model()

    def test_run_is_async_and_takes_step_and_episode(self) -> None:
        """``async def run(step, episode)``."""
        run = self.case.run()
        assert inspect.iscoroutinefunction(run), "run must be an async function"
        try:
            inspect.signature(run).bind(None, None)
        except TypeError as error:
            raise AssertionError(f"run must take (step, episode): {error}") from error

    def test_the_model_reads_the_step(self) -> None:
        """The fields of the case are read, and the envelope keeps its meaning."""
        step = self.case.read()
        assert (step.id, step.type) == (ID, self.case.name), "the model changes id or type"
        assert step.depends_on is None, "depends_on must be None when it is not given: after all earlier steps"
        assert step.fail_task_on_error is True, "fail_task_on_error must be true when it is not given"
        envelope = {**self.case.step, "depends_on": ["a", {"task_step_id": "b"}], "fail_task_on_error": False}
        read = self.case.model().model_validate(envelope)
        assert read.depends_on == ("a", "b"), f"depends_on is read as {read.depends_on!r}"
        assert read.fail_task_on_error is False

    def test_unknown_fields_are_refused(self) -> None:
        """A misspelt field is an error, not a field without effect."""
        self._refused({"no_such_field_": 1})

    def test_wrong_fields_are_refused(self) -> None:
        """The case's wrong fields are refused when the bundle is read."""
        if not self.case.wrong:
            raise SkipTest("the case names no wrong fields")
        for fields in self.case.wrong:
            self._refused(fields)

    def test_types_are_not_guessed(self) -> None:
        """A number for a text, or a list for a number, is refused: no field of a scalar type takes a list."""
        for name, info in self.case.model().model_fields.items():
            annotation = cast("object", info.annotation)
            if name not in _ENVELOPE and any(annotation is kind for kind in (str, int, float, bool)):
                self._refused({name: ["x"]})

    def test_a_step_cannot_be_changed(self) -> None:
        """All episodes of a task share the step: it is frozen."""
        step = self.case.read()
        try:
            step.id = "other"
        except ValidationError:
            return
        raise AssertionError("the step can be changed: keep `frozen=True` in the model's configuration")

    def test_fields_without_meaning_are_fields(self) -> None:
        """`fields_without_meaning` names fields that the model has."""
        model = self.case.model()
        extra = model.fields_without_meaning - set(model.model_fields)
        assert not extra, f"fields_without_meaning names what is no field: {', '.join(sorted(extra))}"

    def test_it_records_what_it_promises(self) -> None:
        """Run with a fake episode, it records one score (`scores = True`) or none, and prompts if it says so."""
        episode = self._run_with_fake()
        model = self.case.model()
        if model.scores:
            assert list(episode.scores) == [ID], f"scores = True, and it recorded {episode.scores or 'no score'}"
            score = episode.scores[ID]
            assert self.case.score is None or score == self.case.score, f"scored {score}, expected {self.case.score}"
        else:
            assert not episode.scores, f"scores = False, and it recorded {episode.scores}"
        assert model.prompts or not episode.prompts, "prompts = False, and it prompted the agent"
        assert not model.prompts or episode.prompts, "prompts = True, and it did not prompt the agent"

    def test_it_runs_again_in_another_episode(self) -> None:
        """Nothing is kept from one episode to the next: the second is scored as the first."""
        first, second = self._run_with_fake(), self._run_with_fake()
        assert first.scores == second.scores, f"scored {first.scores}, then {second.scores}"

    def test_its_results_are_json(self) -> None:
        """What it keeps for later steps can be written as JSON."""
        results = self._run_with_fake().results
        try:
            json.dumps(results, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise AssertionError(f"episode.results holds what is no JSON: {error}") from error

    def test_an_episode_is_played_with_it(self) -> None:
        """A task with this step is read, served and played to a score."""
        if self.case.sandboxes:
            raise SkipTest("the case's sandboxes are made for the fake episode only")
        outcome = asyncio.run(_play(self.case))
        assert outcome.failure is None, f"the episode failed: {outcome.failure}"
        if self.case.model().scores and self.case.score is not None:
            assert outcome.scores[ID] == self.case.score, f"scored {outcome.scores[ID]}, expected {self.case.score}"

    def _refused(self, fields: Mapping[str, Any]) -> None:
        try:
            self.case.model().model_validate({**self.case.step, **fields})
        except ValidationError:
            return
        raise AssertionError(f"the model accepts {dict(fields)}")

    def _run_with_fake(self) -> FakeEpisode:
        case = self.case
        episode = FakeEpisode(
            replies=case.replies,
            envs={name: make() for name, make in case.envs.items()},
            sandboxes={name: make() for name, make in case.sandboxes.items()},
            scoring=[ID] if case.model().scores else [],
        )
        asyncio.run(case.run()(case.read(), episode))
        return episode


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _task(case: StepCase) -> list[Mapping[str, Any]]:
    """Envs, agent, the case's steps, a prompt and a score where they bring none."""
    model = case.model()
    steps: list[Mapping[str, Any]] = [
        {"id": f"deploy_{name}", "type": "deploy_env", "env_id": name} for name in case.envs
    ]
    steps.append({"id": "agent", "type": "deploy_agent", "env_ids": list(case.envs)})
    if not model.prompts:
        steps.append({"id": "question", "type": "prompt_agent", "prompt": "What?", "prompt_id": "question"})
    steps += [*case.before, case.step]
    if not model.scores:
        verifier = {"id": "last", "type": "agent_prompt_response_verifier"}
        steps.append({**verifier, "criteria": [{"type": "response_contains", "needles": [""]}]})
    return steps


async def _play(case: StepCase) -> Outcome:
    from agent_env.bundle import load_bundle
    from agent_env.episode import Engine, Outcome
    from agent_env.testing.in_process import InProcessDeployer
    from agent_env.testing.small import write_bundle

    reward = f"step:{ID}" if case.model().scores else None
    replies = [] if case.model().prompts else ["done"]
    with tempfile.TemporaryDirectory(prefix="agentenv-check-") as folder:
        path = Path(folder) / "bundle"
        await asyncio.to_thread(write_bundle, path, {"task": _task(case)}, envs=list(case.envs))
        bundle = load_bundle(path, case.plugins())
        deployer = InProcessDeployer(dict(case.envs))
        async with Engine(bundle, registry=case.plugins(), reward=reward, deployer=deployer) as engine:
            episode = engine.episode(engine.bundle.task("all", 0))
            await episode.start()
            for reply in [*replies, *case.replies, *([""] * _MOST_TURNS)]:
                ended = await episode.end_turn(reply)
                if isinstance(ended, Outcome):
                    return ended
            await episode.close()
    raise AssertionError(f"the episode did not end within {_MOST_TURNS} turns")
