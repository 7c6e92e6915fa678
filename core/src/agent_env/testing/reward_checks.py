"""The checks of a reward combiner."""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast
from unittest import SkipTest

from agent_env.errors import RewardError, UsageError
from agent_env.plugin.reward import EpisodeFacts, RewardCombiner
from agent_env.testing.checks import Checks

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_env.registry import Registry
    from agent_env.testing.checks import Target

FACTS: Final = (
    EpisodeFacts("task"),
    EpisodeFacts("task", turns=1, tool_calls=3, seconds=0.5),
    EpisodeFacts("task", turns=7, tool_calls=400, invalid_calls=9, truncated=True, seconds=7200.0),
)
_JUNK: Final = (
    "",
    ",",
    "=",
    '"',
    "a=",
    "=1",
    "a=nan",
    "a,,b",
    "a>=1",
    "*",
    "step:",
    "a" * 10_000,
    "é=1",
    "\n",
    "a b c",
)
_MOST_SCORES: Final = 64


@dataclass(frozen=True, slots=True)
class RewardCase:
    """What is checked.

    Attributes:
        spec: a spec as a user writes it, such as ``weighted:grade=0.8,format=0.2``.
        steps: scoring steps of a task that the spec fits.
        wrong: specs that must be refused.
        registry: where the combiner is found; `None` = what is installed.
    """

    spec: str
    steps: Sequence[str]
    wrong: Sequence[str] = ()
    registry: Registry | None = None

    @property
    def name(self) -> str:
        """The combiner's name."""
        return self.spec.partition(":")[0]

    def plugins(self) -> Registry:
        """The registry."""
        from agent_env.registry import default_registry

        return self.registry or default_registry()

    def build(self, spec: str | None = None) -> RewardCombiner:
        """The combiner of a spec, as the engine builds it."""
        name, _, arguments = (self.spec if spec is None else spec).partition(":")
        factory = cast("Callable[[str], object]", self.plugins().load("reward", name))
        combiner = factory(arguments)
        assert isinstance(combiner, RewardCombiner), f"the factory made a {type(combiner).__name__}"
        return combiner


class _Probe(Mapping[str, float]):
    """Scores of any step; remembers which were asked for."""

    def __init__(self) -> None:
        self.asked: dict[str, None] = {}

    def __getitem__(self, step: str) -> float:
        self.asked[step] = None
        return 1.0

    def __contains__(self, step: object) -> bool:
        return isinstance(step, str)

    def __iter__(self) -> Iterator[str]:
        return iter(("grade", "format"))

    def __len__(self) -> int:
        return 2


class _Watched(Mapping[str, float]):
    """Scores of some steps; remembers which others were asked for by name."""

    def __init__(self, scores: Mapping[str, float]) -> None:
        self._scores = scores
        self.missed: dict[str, None] = {}

    def __getitem__(self, step: str) -> float:
        if step not in self._scores:
            self.missed[step] = None
        return self._scores[step]

    def __iter__(self) -> Iterator[str]:
        return iter(self._scores)

    def __len__(self) -> int:
        return len(self._scores)


class RewardChecks(Checks):
    """The contract of `agent_env.plugin.reward.RewardCombiner`."""

    kind: ClassVar[str] = "reward"
    case: RewardCase

    @classmethod
    def case_of(cls, target: Target) -> RewardCase:
        """The spec with the steps that it asks scores of; the option ``steps=a,b`` names them instead."""
        spec = f"{target.name}:{target.arguments}" if target.arguments else target.name
        given = [step.strip() for step in target.options.get("steps", "").split(",") if step.strip()]
        case = RewardCase(spec, given, registry=target.registry)
        try:
            combiner = case.build()
        except RewardError as error:
            raise UsageError(f"write the whole spec, NAME:ARGUMENTS, to check this combiner: {error}") from error
        if given:
            return case
        probe = _Probe()
        try:
            combiner.combine(probe, FACTS[0])
        except Exception:  # noqa: BLE001 - the checks say it better
            probe.asked.clear()
        return RewardCase(spec, tuple(probe.asked) or ("grade", "format"), registry=target.registry)

    def test_it_is_found_by_its_name(self) -> None:
        """The registry finds it, and its summary is one line."""
        summary = self.case.plugins().info("reward", self.case.name).summary
        assert summary.strip(), "the summary is empty"
        assert "\n" not in summary, f"the summary has several lines: {summary!r}"

    def test_it_fits_the_tasks_steps(self) -> None:
        """`check` has nothing to say of a task with these scoring steps."""
        problems = _problems(self.case.build(), self.case.steps)
        assert problems == [], f"check() of a task that fits says {problems}"

    def test_check_answers_any_steps(self) -> None:
        """`check` answers a sequence of lines for any steps, and raises nothing."""
        combiner = self.case.build()
        for steps in ((), ("a",), tuple(f"step {number}" for number in range(300)), ("", "é", 'a"b', "a=b,c")):
            _problems(combiner, steps)

    def test_rewards_are_finite_numbers(self) -> None:
        """Any scores of 0..1 and any facts make a finite number."""
        combiner = self.case.build()
        for scores, facts in itertools.product(_scores(self.case.steps), FACTS):
            _reward(combiner, scores, facts)

    def test_a_missing_score_is_an_error(self) -> None:
        """What `check` calls a problem is a `RewardError` of `combine`, never a number; and the other way round."""
        combiner = self.case.build()
        every = dict.fromkeys(self.case.steps, 0.5)
        for left_out in [[step] for step in every] + [list(every)]:
            scores = _Watched({step: score for step, score in every.items() if step not in left_out})
            problems = _problems(combiner, list(scores))
            try:
                outcome: float | RewardError = _reward(combiner, scores, FACTS[1])
            except RewardError as error:
                outcome = error
            where = f"without the scores of {', '.join(left_out)}"
            if isinstance(outcome, RewardError):
                _words(outcome)
                assert problems, f"{where} combine() raises {outcome!r}, though check() finds nothing wrong"
            else:
                assert not problems, f"{where} it gave {outcome!r}, though check() says: {'; '.join(problems)}"
                missed = ", ".join(map(repr, scores.missed))
                assert not missed, f"{where} it asked for {missed} and gave {outcome!r} all the same"

    def test_it_keeps_no_state(self) -> None:
        """The same scores make the same reward, also in between others and in several threads."""
        combiner = self.case.build()
        asked = list(itertools.product(list(_scores(self.case.steps)), FACTS))
        first = [_reward(combiner, scores, facts) for scores, facts in asked]
        again = [_reward(combiner, scores, facts) for scores, facts in reversed(asked)][::-1]
        assert again == first, "the same scores made another reward the second time"

        def all_again(_: int) -> list[float]:
            return [_reward(combiner, scores, facts) for scores, facts in asked]

        with ThreadPoolExecutor(4) as threads:
            for answers in threads.map(all_again, range(4)):
                assert answers == first, "the same scores made another reward in a thread"

    def test_it_leaves_scores_as_they_are(self) -> None:
        """Scores may be any mapping, and are not changed."""
        combiner = self.case.build()
        scores = dict.fromkeys(self.case.steps, 0.5)
        _reward(combiner, MappingProxyType(scores), FACTS[1])
        _reward(combiner, scores, FACTS[1])
        assert scores == dict.fromkeys(self.case.steps, 0.5), f"combine() changed the scores to {scores}"

    def test_the_order_of_scores_does_not_matter(self) -> None:
        """Steps may have run in any order."""
        combiner = self.case.build()
        for scores in _scores(self.case.steps):
            turned = dict(reversed(scores.items()))
            one, other = _reward(combiner, scores, FACTS[1]), _reward(combiner, turned, FACTS[1])
            assert math.isclose(one, other, abs_tol=1e-9), f"{scores} made {one!r}, the other way round {other!r}"

    def test_wrong_specs_are_refused(self) -> None:
        """The factory refuses the case's wrong specs with a `RewardError` that says something."""
        if not self.case.wrong:
            raise SkipTest("the case names no wrong specs")
        for spec in self.case.wrong:
            try:
                self.case.build(spec)
            except RewardError as error:
                _words(error)
            else:
                raise AssertionError(f"the wrong spec {spec!r} was accepted")

    def test_any_arguments_are_read_or_refused(self) -> None:
        """Whatever stands behind the colon makes a combiner or a `RewardError`."""
        for arguments in _JUNK:
            try:
                self.case.build(f"{self.case.name}:{arguments}")
            except RewardError as error:
                _words(error)
            except Exception as error:
                raise AssertionError(f"arguments {arguments[:40]!r}: {type(error).__name__}: {error}") from error

    def test_an_episode_is_rewarded_with_it(self) -> None:
        """A task with these steps is served with the spec, and an episode gets the combiner's reward."""
        reward, expected = asyncio.run(_play(self.case))
        assert math.isclose(reward, expected), f"the episode's reward is {reward!r}, the combiner made {expected!r}"


def _words(error: RewardError) -> None:
    assert str(error).strip(), "a RewardError has no message"


def _problems(combiner: RewardCombiner, steps: Sequence[str]) -> list[str]:
    answer = cast("object", combiner.check(steps))
    assert isinstance(answer, Sequence), f"check() returned a {type(answer).__name__}, expected a list of lines"
    assert not isinstance(answer, str), f"check() returned a text, expected a list of lines: {answer!r}"
    for line in cast("Sequence[object]", answer):
        assert isinstance(line, str), f"check() holds {line!r}, expected a line"
        assert line.strip(), "check() holds an empty line"
    return [str(line) for line in cast("Sequence[object]", answer)]


def _reward(combiner: RewardCombiner, scores: Mapping[str, float], facts: EpisodeFacts) -> float:
    value = cast("object", combiner.combine(scores, facts))
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise AssertionError(f"combine({dict(scores)}) gave {value!r}, expected a number")  # noqa: TRY004
    assert math.isfinite(value), f"combine({dict(scores)}) gave {value!r}, which is not finite"
    return float(value)


def _scores(steps: Sequence[str]) -> Iterator[dict[str, float]]:
    """Scores to try: each step at 0, 1 and between, all together as far as they are few."""
    product = itertools.product((0.0, 1.0, 1 / 3), repeat=len(steps))
    for values in itertools.islice(product, _MOST_SCORES):
        yield dict(zip(steps, values, strict=True))
    for value in (0.0, 0.5, 1.0):
        yield dict.fromkeys(steps, value)


async def _play(case: RewardCase) -> tuple[float, float]:
    """Play an episode in which every other step scores 1; the reward, and what the combiner makes of it."""
    from agent_env.bundle import load_bundle
    from agent_env.episode import Engine, Outcome
    from agent_env.testing.in_process import InProcessDeployer
    from agent_env.testing.small import ENV, ask, contains, make_room, write_bundle

    steps: list[dict[str, Any]] = [contains(step, f"<{number}>") for number, step in enumerate(case.steps)]
    reply = "".join(f"<{number}>" for number in range(0, len(steps), 2))
    with tempfile.TemporaryDirectory(prefix="agentenv-check-") as folder:
        tasks = {"task": [*ask("What?"), *(steps or [contains("word", "x")])]}
        bundle = load_bundle(await asyncio.to_thread(write_bundle, Path(folder) / "bundle", tasks), case.plugins())
        deployer = InProcessDeployer({ENV: make_room})
        spec = f"combiner:{case.spec}"
        async with Engine(bundle, registry=case.plugins(), reward=spec, deployer=deployer) as engine:
            episode = engine.episode(engine.bundle.task("all", 0))
            await episode.start()
            await episode.call_tool("look", {})
            outcome = await episode.end_turn(reply)
    assert isinstance(outcome, Outcome)
    assert outcome.failure is None, f"the episode failed: {outcome.failure}"
    assert outcome.reward is not None
    assert json.dumps(outcome.reward)
    return outcome.reward, _reward(case.build(), outcome.scores, outcome.facts)
