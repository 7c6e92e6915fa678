"""What ``reward=`` means, and what is refused before anything is served."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any

import pytest
from agent_env.episode import Engine, Outcome
from agent_env.episode.reward_kinds import check_reward
from agent_env.errors import RewardError
from agent_env.plugin import RewardInfo, hookimpl
from agent_env.plugin.reward import EpisodeFacts, RewardCombiner
from agent_env.registry import Registry
from agent_env.testing.in_process import InProcessDeployer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Build = Any


def only_scores(scores: dict[str, float]) -> float:
    return 2 * scores["reply"]


def with_episode(scores: dict[str, float], episode: EpisodeFacts) -> float:
    return scores["reply"] + episode.tool_calls


def with_keyword(scores: dict[str, float], *, episode: EpisodeFacts) -> float:
    return scores["reply"] + episode.turns + 4


async def asynchronous(scores: dict[str, float]) -> float:
    await asyncio.sleep(0)
    return len(scores)


def missing(scores: dict[str, float]) -> float:
    return scores["other"]


async def missing_later(scores: dict[str, float]) -> float:
    await asyncio.sleep(0)
    return scores["other"]


def mistaken(scores: dict[str, float]) -> float:
    return scores["reply"] + "1"  # type: ignore[operator]  # pyright: ignore[reportOperatorIssue]


def missing_when_right(scores: dict[str, float]) -> float:
    return scores["other"] if scores["reply"] == 1.0 else 0.0


def divides(scores: dict[str, float]) -> float:
    return 1.0 / (scores["reply"] - 0.5)


def needs_loud(scores: dict[str, float]) -> float:
    return scores["loud"]


def when_right(value: object) -> Callable[[dict[str, float]], object]:
    def function(scores: dict[str, float]) -> object:
        return value if scores["reply"] == 1.0 else 0.0

    return function


def constant(value: object) -> Callable[[dict[str, float]], object]:
    def function(scores: dict[str, float]) -> object:
        return value

    return function


def thief(scores: dict[str, float]) -> float:
    return scores.pop("reply")


def no_scores() -> float:
    return 1.0


def three(a: object, b: object, c: object) -> float:
    return 1.0


def with_default(scores: dict[str, float], scale: float = 3.0) -> float:
    return scale * scores["reply"]


class Sum(RewardCombiner):
    """Adds the scores up; needs the steps it is given."""

    def __init__(self, needed: str = "") -> None:
        self._needed = [name for name in needed.split(",") if name]
        if "broken" in self._needed:
            raise ValueError("no number")
        if "refused" in self._needed:
            raise RewardError("write sum:a,b")

    def check(self, steps: Sequence[str]) -> Sequence[str]:
        return [f"it needs {name}" for name in self._needed if name not in steps]

    def combine(self, scores: Mapping[str, float], episode: EpisodeFacts) -> float:
        return sum(scores.values()) + 10 * episode.tool_calls


class Plugin:
    """A hook module with two combiners, one named like a step."""

    @hookimpl
    def agentenv_rewards(self) -> list[RewardInfo]:
        return [RewardInfo(name, name, f"{__name__}:Sum") for name in ("sum", "reply")]


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry:
    """With the combiners of this file."""
    import sys

    monkeypatch.setitem(sys.modules, __name__, sys.modules.get(__name__) or __import__(__name__))
    monkeypatch.setattr(sys.modules[__name__], "Sum", Sum, raising=False)
    return Registry({"acme:acme": Plugin()})


@pytest.fixture
def scored(bundle: Build, steps: Any) -> Build:
    """Three tasks: one score, two scores, two scores with a final aggregate."""
    bundle.env()
    loud = {**steps.reply, "id": "loud"}
    final = {"type": "aggregate_verifiers", "id": "final", "verifier_ids": ["reply", "loud"]}
    bundle.task(steps.deploy, steps.ask, steps.reply, name="one")
    bundle.task(steps.deploy, steps.ask, steps.reply, loud, name="two")
    bundle.task(steps.deploy, steps.ask, steps.reply, loud, final, name="whole")
    return bundle


def served(scored: Build, reward: Any, registry: Registry) -> tuple[list[str], list[str]]:
    """Names of the tasks that are served, and what is said of the others."""
    engine = Engine(scored.load(), registry=registry, reward=reward, deployer=InProcessDeployer({}))
    return sorted(engine.bundle.templates), [str(problem) for problem in engine.bundle.left_out]


def test_without_reward_a_task_needs_one_score_or_a_final_aggregate(scored: Build, registry: Registry) -> None:
    names, problems = served(scored, None, registry)
    assert names == ["one", "whole"]
    assert len(problems) == 1
    assert "two.json" in problems[0]
    assert "reply, loud" in problems[0]


def test_a_step_of_some_tasks_leaves_out_the_others(scored: Build, registry: Registry) -> None:
    names, problems = served(scored, "loud", registry)
    assert names == ["two", "whole"]
    assert "no scoring step 'loud'" in problems[0]
    assert served(scored, "step:final", registry)[0] == ["whole"]


@pytest.mark.parametrize(
    ("reward", "words"),
    [
        ("repyl", "no scoring step of the bundle (scoring steps: final, loud, reply)"),
        ("step:sum", "no task has a scoring step 'sum'; scoring steps: final, loud, reply"),
        ("reply", "write 'step:reply' or 'combiner:reply'"),
        ("sum:absent,gone", "one.json: sum: it needs absent"),
        ("sum:broken", "reward combiner 'sum': ValueError: no number"),
        ("sum:refused", "sum: write sum:a,b"),
        (missing, "reward function missing asks for the score of 'other'; the task's scoring steps: reply, loud"),
        (missing_later, "asks for the score of 'other'"),
        (mistaken, "TypeError"),
        (constant(None), "gave None"),
        (constant("1"), "gave '1'"),
        (constant(True), "gave True"),
        (no_scores, "must take (scores) or (scores, episode)"),
        (three, "must take (scores) or (scores, episode)"),
        (7, "got int"),
    ],
)
def test_a_reward_that_cannot_work_is_refused(scored: Build, registry: Registry, reward: Any, words: str) -> None:
    with pytest.raises(RewardError) as error:
        served(scored, reward, registry)
    assert words in str(error.value)


def test_all_problems_are_listed(scored: Build, registry: Registry) -> None:
    with pytest.raises(RewardError) as error:
        served(scored, "sum:absent,gone", registry)
    assert len(error.value.problems) == 6


def test_a_combiner_leaves_out_what_it_does_not_fit(scored: Build, registry: Registry) -> None:
    names, problems = served(scored, "sum:loud", registry)
    assert names == ["two", "whole"]
    assert problems == ["tasks/one.json: sum: it needs loud"]


def test_a_function_leaves_out_the_tasks_that_its_trial_fails_on(scored: Build, registry: Registry) -> None:
    names, problems = served(scored, needs_loud, registry)
    assert names == ["two", "whole"]
    assert problems == [
        "tasks/one.json: reward function needs_loud asks for the score of 'loud'; the task's scoring steps: reply"
    ]


def test_a_trial_inside_a_running_loop(scored: Build, registry: Registry) -> None:
    async def build() -> list[str]:
        return served(scored, asynchronous, registry)[0]

    assert asyncio.run(build()) == ["one", "two", "whole"]


def test_what_may_come_of_the_trial_numbers_is_a_warning(
    scored: Build, registry: Registry, caplog: pytest.LogCaptureFixture
) -> None:
    assert served(scored, divides, registry) == (["one", "two", "whole"], [])
    assert "reward function divides: ZeroDivisionError" in caplog.text
    assert "tried with every score at 0.5 (the task's scoring steps: reply" in caplog.text


def reward_of(scored: Build, in_process: Any, reward: Any, registry: Registry, reply: str = "hello") -> Outcome:
    """Play the last task that is served and call one tool."""

    async def play() -> Outcome:
        async with in_process(scored, reward=reward, registry=registry) as it:
            episode = it.episode(len(it.engine.bundle.splits["all"]) - 1)
            await episode.start()
            await episode.call_tool("echo", {"text": "x"})
            outcome = await episode.end_turn(reply)
            assert isinstance(outcome, Outcome)
            return outcome

    return asyncio.run(play())


@pytest.mark.parametrize(
    ("reward", "value"),
    [
        (None, 1.0),
        ("step:reply", 1.0),
        ("final", 1.0),
        ("sum", 13.0),
        ("combiner:reply", 13.0),
        (Sum(), 13.0),
        (only_scores, 2.0),
        (with_episode, 2.0),
        (with_keyword, 6.0),
        (asynchronous, 3.0),
        (with_default, 3.0),
        (constant(5), 5.0),
    ],
)
def test_rewards(scored: Build, in_process: Any, registry: Registry, reward: Any, value: float) -> None:
    outcome = reward_of(scored, in_process, reward, registry)
    assert outcome.failure is None
    assert outcome.reward == value


@pytest.mark.parametrize(
    ("reward", "words"),
    [
        (missing_when_right, "KeyError: 'other'"),
        (constant(math.nan), "gave nan, not a finite number"),
        (constant(math.inf), "not a finite number"),
        (when_right(None), "gave None"),
        (when_right("1"), "gave '1'"),
        (when_right(True), "gave True"),
    ],
)
def test_scores_that_make_no_reward_are_a_failure_with_the_scores_kept(
    scored: Build, in_process: Any, registry: Registry, reward: Any, words: str
) -> None:
    outcome = reward_of(scored, in_process, reward, registry)
    assert outcome.reward is None
    assert outcome.failure is not None
    assert outcome.failure.kind == "no_reward"
    assert words in outcome.failure.message
    assert outcome.scores == {"reply": 1.0, "loud": 1.0, "final": 1.0}


def test_a_reward_that_never_comes_is_no_reward(scored: Build, in_process: Any, registry: Registry) -> None:
    async def never(scores: dict[str, float]) -> float:
        await asyncio.sleep(3600)
        return 0.0

    async def play() -> None:
        async with in_process(scored, reward=never, registry=registry) as it:
            episode = it.episode()
            await episode.start()
            outcome = await episode.end_turn("hello", timeout=0.05)
            assert isinstance(outcome, Outcome)
            assert outcome.failure is not None
            assert outcome.failure.kind == "no_reward"

    asyncio.run(play())


def test_a_function_cannot_change_the_recorded_scores(scored: Build, in_process: Any, registry: Registry) -> None:
    outcome = reward_of(scored, in_process, thief, registry)
    assert outcome.scores["reply"] == 1.0


@pytest.mark.parametrize("value", [0, 1, -2.5, 10**6])
def test_finite_numbers_are_rewards(value: float) -> None:
    assert check_reward(value, "it") == float(value)
