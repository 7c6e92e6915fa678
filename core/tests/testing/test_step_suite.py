"""The checks of step types find what is broken, each the check that is for it; the fakes keep the engine's rules."""

from __future__ import annotations

import asyncio
import math
import sys
import types
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from agent_env.errors import SandboxUnsupported, UsageError
from agent_env.plugin import StepInfo, hookimpl
from agent_env.plugin.sandbox import ExecResult
from agent_env.plugin.step import StepModel
from agent_env.registry import Registry, default_registry
from agent_env.testing.checks import Target, run_checks
from agent_env.testing.fakes import FakeEpisode, FakeSandbox
from agent_env.testing.step_checks import StepCase, StepChecks
from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from agent_env.plugin.step import EpisodeContext

MODULE = "steps_of_a_test"


class Quiz(StepModel):
    """Asks, and scores the answer."""

    scores: ClassVar[bool] = True
    prompts: ClassVar[bool] = True
    fields_without_meaning: ClassVar[frozenset[str]] = frozenset({"colour"})

    question: str
    answer: str = Field(min_length=1)
    colour: str = "red"


async def run_quiz(step: Any, episode: EpisodeContext) -> None:
    said = await episode.prompt(step.question, prompt_id=step.id)
    episode.results["said"] = said
    episode.record_score(step.id, 1.0 if step.answer in said else 0.0)


class Open(Quiz):
    model_config = ConfigDict(extra="ignore", frozen=False)


class NoModel(BaseModel):
    id: str


class Ghost(Quiz):
    fields_without_meaning: ClassVar[frozenset[str]] = frozenset({"size"})


class Root(Quiz):
    depends_on: tuple[str, ...] = ()  # pyright: ignore[reportIncompatibleVariableOverride]


class Silent(Quiz):
    scores: ClassVar[bool] = False


class Unprompted(Quiz):
    prompts: ClassVar[bool] = False


async def run_nothing(step: Any, episode: EpisodeContext) -> None:
    await episode.prompt(step.question)


async def run_without_prompt(step: Any, episode: EpisodeContext) -> None:
    episode.record_score(step.id, 1.0)


async def run_twice(step: Any, episode: EpisodeContext) -> None:
    await run_quiz(step, episode)
    episode.record_score(step.id, 0.5)


async def run_elsewhere(step: Any, episode: EpisodeContext) -> None:
    await episode.prompt(step.question)
    episode.record_score("elsewhere", 1.0)


async def run_nan(step: Any, episode: EpisodeContext) -> None:
    await episode.prompt(step.question)
    episode.record_score(step.id, math.nan)


async def run_wrong(step: Any, episode: EpisodeContext) -> None:
    await episode.prompt(step.question)
    episode.record_score(step.id, 0.25)


async def run_objects(step: Any, episode: EpisodeContext) -> None:
    await run_quiz(step, episode)
    episode.results["step"] = step


SEEN: list[str] = []


async def run_remembering(step: Any, episode: EpisodeContext) -> None:
    await episode.prompt(step.question)
    SEEN.append(step.id)
    episode.record_score(step.id, 1.0 / len(SEEN))


def run_sync(step: Any, episode: EpisodeContext) -> None:
    return None


async def run_alone(step: Any) -> None:
    return None


@pytest.fixture
def case(monkeypatch: pytest.MonkeyPatch) -> Callable[..., StepCase]:
    """``case(model, run)``: the step type ``quiz`` of these."""

    def make(model: object = Quiz, run: object = run_quiz, summary: str = "Asks") -> StepCase:
        SEEN.clear()
        module = types.ModuleType(MODULE)
        module.model, module.run = model, run  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, MODULE, module)
        hooks = types.ModuleType("hooks")

        @hookimpl
        def agentenv_steps() -> list[StepInfo]:
            return [StepInfo("quiz", summary, model=f"{MODULE}:model", run=f"{MODULE}:run")]

        hooks.agentenv_steps = agentenv_steps  # type: ignore[attr-defined]
        fields = {"question": "2 + 2?", "answer": "4"}
        wrong = ({"answer": ""}, {"question": None})
        return StepCase("quiz", fields, wrong, ("it is 4",), 1.0, registry=Registry({"acme:acme": hooks}))

    return make


def failed(case: StepCase) -> set[str]:
    return {result.name for result in run_checks(StepChecks, case) if result.status == "failed"}


def test_a_sound_step_passes_everything(case: Callable[..., StepCase]) -> None:
    assert {result.name: result.reason for result in run_checks(StepChecks, case()) if result.reason} == {}


@pytest.mark.parametrize(
    ("model", "run", "wrong"),
    [
        (Open, run_quiz, {"unknown_fields_are_refused", "a_step_cannot_be_changed"}),
        (NoModel, run_quiz, {"it_is_found_by_its_name", "the_model_reads_the_step", "an_episode_is_played_with_it"}),
        (Ghost, run_quiz, {"fields_without_meaning_are_fields"}),
        (Root, run_quiz, {"the_model_reads_the_step"}),
        (Silent, run_quiz, {"it_records_what_it_promises", "an_episode_is_played_with_it"}),
        (Unprompted, run_quiz, {"it_records_what_it_promises"}),
        (Quiz, run_nothing, {"it_records_what_it_promises", "an_episode_is_played_with_it"}),
        (Quiz, run_without_prompt, {"it_records_what_it_promises"}),
        (Quiz, run_twice, {"it_records_what_it_promises", "an_episode_is_played_with_it"}),
        (Quiz, run_elsewhere, {"it_records_what_it_promises", "an_episode_is_played_with_it"}),
        (Quiz, run_nan, {"it_records_what_it_promises", "an_episode_is_played_with_it"}),
        (Quiz, run_wrong, {"it_records_what_it_promises", "an_episode_is_played_with_it"}),
        (Quiz, run_objects, {"its_results_are_json"}),
        (Quiz, run_remembering, {"it_runs_again_in_another_episode"}),
        (Quiz, run_sync, {"run_is_async_and_takes_step_and_episode"}),
        (Quiz, run_alone, {"run_is_async_and_takes_step_and_episode", "an_episode_is_played_with_it"}),
    ],
)
def test_what_is_broken_is_found(case: Callable[..., StepCase], model: object, run: object, wrong: set[str]) -> None:
    assert wrong <= failed(case(model, run))


@pytest.mark.parametrize(
    ("model", "run", "check"),
    [(Ghost, run_quiz, "fields_without_meaning_are_fields"), (Quiz, run_objects, "its_results_are_json")],
)
def test_nothing_else_is_blamed(case: Callable[..., StepCase], model: object, run: object, check: str) -> None:
    assert failed(case(model, run)) == {check}


def test_types_that_are_guessed_are_found(case: Callable[..., StepCase]) -> None:
    class Lists(Quiz):
        @classmethod
        def model_validate(cls, obj: Any, **options: Any) -> Any:
            return super().model_validate({k: v[0] if v == ["x"] else v for k, v in obj.items()}, **options)

    assert failed(case(Lists)) == {"types_are_not_guessed"}


def test_wrong_fields_that_are_taken_are_found(case: Callable[..., StepCase]) -> None:
    one = replace(case(), wrong=({"colour": "blue"},))
    assert failed(one) == {"wrong_fields_are_refused"}
    skipped = [result for result in run_checks(StepChecks, replace(one, wrong=())) if result.status == "skipped"]
    assert [result.reason for result in skipped] == ["the case names no wrong fields"]


def test_an_empty_summary_is_found(case: Callable[..., StepCase]) -> None:
    assert failed(case(summary="")) == {"it_is_found_by_its_name"}


def test_the_fields_come_from_options(case: Callable[..., StepCase]) -> None:
    registry = case().registry
    assert registry is not None

    def of(**options: str) -> StepCase:
        return StepChecks.case_of(Target(registry, "step", "quiz", "", options))

    made = of(question='"2 + 2?"', answer="four", reply="four")
    assert (made.step["question"], made.step["answer"], made.replies) == ("2 + 2?", "four", ("four",))
    with pytest.raises(UsageError, match=r"--option FIELD=VALUE.*answer: Field required"):
        of(question="2 + 2?")
    with pytest.raises(UsageError, match="a step type of the core"):
        StepChecks.case_of(Target(default_registry(), "step", "deploy_env"))


# -- the fakes --------------------------------------------------------------------------------------------------------


def test_a_fake_episode_keeps_the_rules() -> None:
    async def main() -> None:
        episode = FakeEpisode(replies=["yes"], scoring=["a", "b"])
        assert await episode.prompt("sure?") == "yes"
        with pytest.raises(UsageError, match="1 replies"):
            await episode.prompt("really?")
        assert episode.prompts == ["sure?"]
        episode.record_score("a", 1, [{"id": "x", "result": True}])
        assert (episode.scores, episode.rows) == ({"a": 1.0}, {"a": ({"id": "x", "result": True},)})
        for step, score, words in [
            ("a", 0.5, "already"),
            ("c", 0.5, "no scoring step"),
            ("b", math.inf, "finite"),
            ("b", True, "finite"),
        ]:
            with pytest.raises(UsageError, match=words):
                episode.record_score(step, score)
        for lookup in (episode.env, episode.sandbox):
            with pytest.raises(UsageError, match="deployed: none"):
                lookup("x")

    asyncio.run(main())


def test_a_fake_sandbox_holds_files_and_runs_a_function(tmp_path: Path) -> None:
    def run(argv: Any, files: dict[str, bytes]) -> ExecResult:
        return ExecResult(0, files[argv[1]].decode(), "")

    async def main() -> None:
        box = FakeSandbox(run, files={"/a/x": b"1"})
        await box.write("/a/deep/y", b"22")
        assert (await box.exec(["cat", "/a/deep/y"])).stdout == "22"
        await box.download("/a", tmp_path / "back")
        assert (tmp_path / "back" / "deep" / "y").read_bytes() == b"22"
        await box.upload(tmp_path / "back", "/b")
        await box.upload(tmp_path / "back" / "x", "/c")
        assert (await box.read("/b/deep/y"), await box.read("/c")) == (b"22", b"1")
        for path, error in (("/none", FileNotFoundError), ("/a", IsADirectoryError)):
            with pytest.raises(error):
                await box.read(path)
        with pytest.raises(ValueError, match="larger"):
            await box.read("/a/deep/y", max_bytes=1)
        with pytest.raises(FileNotFoundError):
            await box.download("/none", tmp_path / "none")
        with pytest.raises(SandboxUnsupported):
            await FakeSandbox().exec(["cat"])
        async with box:
            assert await box.status() == "running"
        assert await box.status() == "gone"

    asyncio.run(main())
