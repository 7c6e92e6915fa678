"""The checks of reward combiners find what is broken, each the check that is for it."""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING

import pytest
from agent_env.errors import RewardError, UsageError
from agent_env.plugin import RewardInfo, hookimpl
from agent_env.plugin.reward import EpisodeFacts, RewardCombiner
from agent_env.plugin.reward_spec import score_of, step_id, step_problems
from agent_env.registry import Registry, default_registry
from agent_env.testing.checks import CheckResult, Target, run_checks
from agent_env.testing.reward_checks import RewardCase, RewardChecks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

MODULE = "combiners_of_a_test"


class Sound(RewardCombiner):
    def __init__(self, step: str) -> None:
        self.step = step

    def combine(self, scores: Mapping[str, float], episode: EpisodeFacts) -> float:
        return score_of(scores, self.step) / (1 + episode.tool_calls)

    def check(self, steps: Sequence[str]) -> Sequence[str]:
        return step_problems([self.step], steps)


class NotFinite(Sound):
    def combine(self, scores: Mapping[str, float], episode: EpisodeFacts) -> float:
        return super().combine(scores, episode) / (1 if episode.turns < 5 else float("inf")) * float("inf")


class Text(Sound):
    def combine(self, scores: Mapping[str, float], episode: EpisodeFacts) -> float:
        return str(super().combine(scores, episode))  # type: ignore[return-value]


class ZeroForMissing(Sound):
    def combine(self, scores: Mapping[str, float], episode: EpisodeFacts) -> float:
        return scores.get(self.step, 0.0)


class KeyErrorForMissing(Sound):
    def combine(self, scores: Mapping[str, float], episode: EpisodeFacts) -> float:
        return scores[self.step]


class ZeroWithoutCheck(ZeroForMissing):
    def check(self, steps: Sequence[str]) -> Sequence[str]:
        return ()


class NoCheck(Sound):
    def check(self, steps: Sequence[str]) -> Sequence[str]:
        return ()


class CheckIsText(Sound):
    def check(self, steps: Sequence[str]) -> Sequence[str]:
        return "; ".join(super().check(steps))


class CheckRaises(Sound):
    def check(self, steps: Sequence[str]) -> Sequence[str]:
        return [] if steps[0] else [""]


class Remembers(Sound):
    def __init__(self, step: str) -> None:
        super().__init__(step)
        self.best = 0.0

    def combine(self, scores: Mapping[str, float], episode: EpisodeFacts) -> float:
        self.best = max(self.best, super().combine(scores, episode))
        return self.best


class Thief(Sound):
    def combine(self, scores: Mapping[str, float], episode: EpisodeFacts) -> float:
        reward = super().combine(scores, episode)
        if isinstance(scores, dict):
            scores.pop(self.step)
        return reward


class FirstCounts(Sound):
    def combine(self, scores: Mapping[str, float], episode: EpisodeFacts) -> float:
        super().combine(scores, episode)
        return next(iter(scores.values()))


def build_of(kind: type[Sound]) -> Callable[[str], RewardCombiner]:
    return lambda arguments: kind(step_id(arguments))


def takes_anything(arguments: str) -> RewardCombiner:
    return Sound(arguments.strip('"') or "grade")


def crashes_on_arguments(arguments: str) -> RewardCombiner:
    if "," in arguments:
        raise IndexError("list index out of range")
    return Sound(step_id(arguments))


def makes_nothing(arguments: str) -> RewardCombiner:
    return {"step": step_id(arguments)}  # type: ignore[return-value]


@pytest.fixture
def case(monkeypatch: pytest.MonkeyPatch) -> Callable[..., RewardCase]:
    """``case(factory)``: the combiner ``it`` that this factory builds."""

    def make(factory: Callable[[str], RewardCombiner], spec: str = "it:grade", summary: str = "It") -> RewardCase:
        module = types.ModuleType(MODULE)
        module.build = factory  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, MODULE, module)
        hooks = types.ModuleType("hooks")

        @hookimpl
        def agentenv_rewards() -> list[RewardInfo]:
            return [RewardInfo("it", summary, f"{MODULE}:build")]

        hooks.agentenv_rewards = agentenv_rewards  # type: ignore[attr-defined]
        return RewardCase(spec, ("grade", "format"), ("it", "it:a=b"), Registry({"acme:acme": hooks}))

    return make


def results(case: RewardCase) -> dict[str, CheckResult]:
    return {result.name: result for result in run_checks(RewardChecks, case)}


def failed(case: RewardCase) -> set[str]:
    return {name for name, result in results(case).items() if result.status == "failed"}


def test_a_sound_combiner_passes_everything(case: Callable[..., RewardCase]) -> None:
    assert {name: result.reason for name, result in results(case(build_of(Sound))).items() if result.reason} == {}


@pytest.mark.parametrize(
    ("factory", "wrong"),
    [
        (build_of(NotFinite), {"rewards_are_finite_numbers"}),
        (build_of(Text), {"rewards_are_finite_numbers", "an_episode_is_rewarded_with_it"}),
        (build_of(ZeroForMissing), {"a_missing_score_is_an_error"}),
        (build_of(KeyErrorForMissing), {"a_missing_score_is_an_error"}),
        (build_of(ZeroWithoutCheck), {"a_missing_score_is_an_error"}),
        (build_of(NoCheck), {"a_missing_score_is_an_error"}),
        (build_of(CheckIsText), {"check_answers_any_steps", "it_fits_the_tasks_steps"}),
        (build_of(CheckRaises), {"check_answers_any_steps"}),
        (build_of(Remembers), {"it_keeps_no_state"}),
        (build_of(Thief), {"it_leaves_scores_as_they_are"}),
        (build_of(FirstCounts), {"the_order_of_scores_does_not_matter"}),
        (takes_anything, {"wrong_specs_are_refused"}),
        (crashes_on_arguments, {"any_arguments_are_read_or_refused"}),
        (makes_nothing, {"it_fits_the_tasks_steps", "an_episode_is_rewarded_with_it"}),
    ],
)
def test_what_is_broken_is_found(
    case: Callable[..., RewardCase], factory: Callable[[str], RewardCombiner], wrong: set[str]
) -> None:
    assert wrong <= failed(case(factory))


@pytest.mark.parametrize("kind", [ZeroForMissing, KeyErrorForMissing, NoCheck, Remembers, FirstCounts])
def test_nothing_else_is_blamed(case: Callable[..., RewardCase], kind: type[Sound]) -> None:
    assert len(failed(case(build_of(kind)))) == 1


def test_a_missing_plugin_and_an_empty_summary_are_found(case: Callable[..., RewardCase]) -> None:
    assert "it_is_found_by_its_name" in failed(case(build_of(Sound), spec="that:grade"))
    assert failed(case(build_of(Sound), summary="")) == {"it_is_found_by_its_name"}


def test_a_case_for_an_installed_plugin_finds_the_steps_it_asks_for() -> None:
    def steps(spec: str, **options: str) -> Sequence[str]:
        name, _, arguments = spec.partition(":")
        return RewardChecks.case_of(Target(default_registry(), "reward", name, arguments, options)).steps

    assert set(steps("weighted:a=0.7,b=0.3")) == {"a", "b"}
    assert set(steps("gate:format>=1,then=grade,else=0")) == {"format", "grade"}
    assert steps("mean") == ("grade", "format")
    assert list(steps("mean", steps="x, y")) == ["x", "y"]
    with pytest.raises(UsageError, match=r"write the whole spec.*weighted:a=0.7"):
        steps("weighted")


def test_a_combiner_may_need_no_score(case: Callable[..., RewardCase]) -> None:
    class Constant(Sound):
        def combine(self, scores: Mapping[str, float], episode: EpisodeFacts) -> float:
            return 1.0 if episode.tool_calls else 0.0

        def check(self, steps: Sequence[str]) -> Sequence[str]:
            return ()

    assert failed(case(build_of(Constant))) == set()


def test_a_refusal_without_words_is_found(case: Callable[..., RewardCase]) -> None:
    def wordless(arguments: str) -> RewardCombiner:
        if arguments != "grade":
            raise RewardError("")
        return Sound(arguments)

    assert failed(case(wordless)) == {"wrong_specs_are_refused", "any_arguments_are_read_or_refused"}
